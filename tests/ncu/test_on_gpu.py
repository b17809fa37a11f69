"""The real ncu on a real GPU, through the whole command."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cuprof.cli.ncu import task
from cuprof.config.composer import compose
from cuprof.core.errors import ProfilerError
from cuprof.core.processes import child_environment
from cuprof.core.project import Project
from cuprof.ncu.executable import NcuExecutable, get_executable
from cuprof.results.queries import query
from cuprof.store.store import Store

SETS = ("study", "memory", "compute", "instructions", "roofline", "occupancy", "full")
SIXTEEN_MIB = ["problem.n=2**22", "problem.dtype=float32", "variants=sequential"]

pytestmark = [pytest.mark.gpu, pytest.mark.alone, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def ncu() -> NcuExecutable:
    """Return the ncu of this machine."""
    try:
        executable = get_executable()
        _ = executable.version
        return executable
    except ProfilerError as error:
        pytest.skip(str(error))


def _collect(root: Path, *overrides: str) -> int:
    return task(compose(["experiment=reduction", *overrides]), Project(root))


def test_stored_counters_equal_the_raw_page_of_the_kept_report(ncu: NcuExecutable, tmp_path: Path, capsys) -> None:
    assert _collect(tmp_path, *SIXTEEN_MIB, "output=json") == 0
    printed = json.loads(capsys.readouterr().out)[0]["counters"]
    with Store.open(Project(tmp_path).database_url, read_only=True) as store:
        launches = query(store.url, "SELECT * FROM launch_counters")
        wide = query(store.url, "SELECT * FROM counters_wide")
        artifact = query(store.url, "SELECT path FROM artifact").path[0]
    kept = Project(tmp_path).artifacts / artifact
    command = [str(ncu.path), "--import", str(kept), "--page", "raw", "--csv", "--print-units", "base"]
    raw = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = list(csv.DictReader(io.StringIO(raw)))[1:]
    assert printed
    for name, value in printed.items():
        assert wide[name][0] == value
        stored = launches[launches.metric == name].value.tolist()
        assert stored == pytest.approx([float(row[name].replace(",", "")) for row in rows], rel=1e-4, abs=0.005)


def _read_dram(root: Path, name: str, cache_control: str, capsys: Any) -> float:
    """Return the bytes that a read of 16 MiB takes from DRAM, counted beside a metric set."""
    words = [f"ncu={name}", "+ncu.metrics=[dram__bytes_read.sum]", f"ncu.cache_control={cache_control}", "output=json"]
    assert _collect(root, *SIXTEEN_MIB, *words) == 0
    found: float = json.loads(capsys.readouterr().out)[0]["counters"]["dram__bytes_read.sum"]
    return found


@pytest.mark.parametrize("name", SETS)
def test_cold_is_cold_in_every_metric_set(ncu: NcuExecutable, tmp_path: Path, name: str, capsys) -> None:
    assert _read_dram(tmp_path, name, "all", capsys) == pytest.approx(2**24, rel=0.03)


@pytest.mark.parametrize("name", ["study", "memory"])  # of one pass and of several: each starts the program again
def test_hot_is_hot_in_one_pass_and_in_several(ncu: NcuExecutable, tmp_path: Path, name: str, capsys) -> None:
    assert _read_dram(tmp_path, name, "none", capsys) < 2**20


def test_a_library_profiles_with_all_its_kernels(ncu: NcuExecutable, tmp_path: Path) -> None:
    assert _collect(tmp_path, "problem.n=2**22", "variants=cupy_sum") == 0
    with Store.open(Project(tmp_path).database_url, read_only=True) as store:
        assert query(store.url, "SELECT COUNT(*) AS n FROM launch").n[0] >= 1


def test_collections_at_once_take_turns(ncu: NcuExecutable, tmp_path: Path) -> None:
    """What one launches is in no other's counters: hot ones read nothing from DRAM."""
    words = [*SIXTEEN_MIB, "+ncu.metrics=[dram__bytes_read.sum]", "ncu.cache_control=none", "output=json"]
    command = [sys.executable, "-m", "cuprof", "ncu-collect", "experiment=reduction", "ncu=study", *words]
    roots = [tmp_path / str(number) for number in range(3)]
    for root in roots:
        root.mkdir()
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    begun = [subprocess.Popen(command, cwd=root, env=child_environment(), **pipes) for root in roots]
    said = [process.communicate() for process in begun]
    assert [process.returncode for process in begun] == [0, 0, 0], said
    for printed, _ in said:
        assert json.loads(printed)[0]["counters"]["dram__bytes_read.sum"] < 2**20
    assert sum("waiting for another cuprof process" in told for _, told in said) >= 1
