"""An empty store for comparisons."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuprof.store.store import Store

sys.path.insert(0, str(Path(__file__).parent))  # for the module beside this file


@pytest.fixture
def url(sqlite_template: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'runs of ü.sqlite')}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened
