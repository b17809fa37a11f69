"""A package adds a reader of another tool's results by an entry point, and `cuprof compare` takes its files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuprof.core import plugins
from cuprof.core.errors import UsageError
from cuprof.interop.results import read_results
from tests.conftest import Result

READER = """
import json

import numpy as np

from cuprof.core.point import Point
from cuprof.interop.results import Imported, ImportedTrial


class Reader:
    def recognizes(self, head):
        return '"stopwatch"' in head

    def read(self, path):
        found = json.loads(path.read_text())["stopwatch"]
        trials = [ImportedTrial(name, Point(n=8), durations_ns=np.array(times) * 1e3) for name, times in found.items()]
        return Imported("stopwatch", "the stopwatch", trials, ("a hand stops it",))


READER = Reader()
"""


def install(folder: Path) -> Path:
    """Install a package into a folder as pip does: a module and what its metadata say; return the folder."""
    info = folder / "stopwatch-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stopwatch\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cuprof.results]\nstopwatch = stopwatch:READER\n")
    (folder / "stopwatch.py").write_text(READER)
    return folder


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the package be an installed one, which nothing knows before or after."""
    monkeypatch.syspath_prepend(install(tmp_path / "site"))
    plugins._installed.cache_clear()
    yield
    plugins._installed.cache_clear()
    sys.modules.pop("stopwatch", None)


@pytest.mark.usefixtures("site")
def test_an_installed_reader_is_found_and_its_files_are_compared(
    tmp_path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, factor in (("base", 1.0), ("new", 2.0)):
        times = [factor * (10 + 0.01 * number) for number in range(50)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"stopwatch": {"copy": times}}))
    monkeypatch.chdir(tmp_path)
    done = cli("compare", "base.json", "new.json", "--json")
    found = json.loads(done.out)
    assert [(row["verdict"], row["base"]["family"]) for row in found["rows"]] == [("slower", "copy")], done.err
    assert "a hand stops it" in found["warnings"]


def test_what_no_reader_knows_is_told_with_what_there_is(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text("time,n\n1,2\n")
    with pytest.raises(UsageError, match="holds no results that cuprof can read; known are files of kernel_tuner, nv"):
        read_results(file)
