from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cuprof.config.model import LaunchConfig
from cuprof.core.errors import MissingDependencyError
from cuprof.engine.launchers.launcher import Work, open_launcher


@pytest.mark.parametrize("name", ["joblib", "ray"])
def test_a_missing_library_comes_with_its_extra(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    launcher = open_launcher(Work((), tmp_path, tmp_path, LaunchConfig(name=name)))
    with pytest.raises(MissingDependencyError, match=rf"pip install 'cuprof\[{name}\]'"):
        launcher.start()


def test_slurm_is_looked_for_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    launcher = open_launcher(Work((), tmp_path, tmp_path, LaunchConfig(name="slurm")))
    with pytest.raises(MissingDependencyError, match="run this on a host that submits to it"):
        launcher.start()
