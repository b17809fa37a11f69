"""Studies of invented sweeps, read back from a real store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cuprof.analysis import Study, load_study
from cuprof.store import Store

sys.path.insert(0, str(Path(__file__).parent))  # for the module beside this file

from study_data import Made, fill, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as opened:
        yield opened


@pytest.fixture
def make_study(store: Store, tmp_path: Path) -> Callable[..., Study]:
    """Return a function: trials (and the text of a study.yaml) → the study."""

    def make(trials: Sequence[Made], yaml: str = "", files: dict[str, str] | None = None, **facts: Any) -> Study:
        folder = tmp_path / "experiments" / facts.get("experiment", "invented")
        if yaml or files:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "study.yaml").write_text(yaml, encoding="utf-8")
            for name, text in (files or {}).items():
                (folder / name).write_text(text, encoding="utf-8")
        sweep = fill(store, trials, **facts)
        return load_study(store, facts.get("experiment", "invented"), sweep_id=sweep, folders=[folder.parent])

    return make
