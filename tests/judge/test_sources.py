"""Candidates that are sources: OpenCL C where there is a device, CUDA C++ on a GPU."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from cuprof.backends.opencl.presence import list_devices
from cuprof.core.errors import MissingDependencyError, UsageError
from cuprof.core.processes import child_environment
from cuprof.families.candidate import Extension, extend
from cuprof.families.origin import load_family
from cuprof.judge.contenders import check_file, find_like
from cuprof.judge.report import Candidate, Report, Ruling
from cuprof.judge.warden import Warden
from tests.judge.conftest import FAMILIES, FEW, ROOT, Court, even_host

CL = "__kernel void doubles(__global const float* x, __global float* y, int n)"
CU = 'extern "C" __global__ void doubles(const float* x, float* y, int n)'
CL_INDEX, CU_INDEX = "get_global_id(0)", "blockIdx.x * blockDim.x + threadIdx.x"


def body(index: str, factor: str) -> str:
    return f" {{ int i = {index}; if (i < n) y[i] = {factor} * x[i]; }}\n"


def write_sources(court: Court, ending: str, head: str, index: str) -> list[Any]:
    return [
        court.write(f"right.{ending}", head + body(index, "2.0f")),
        court.write(f"wrong.{ending}", head + body(index, "3.0f")),
        court.write(f"broken.{ending}", head + " { nonsense }\n"),
    ]


def check(court: Court, ending: str, head: str, index: str, backend: str, **settings: Any) -> None:
    files = write_sources(court, ending, head, index)
    like = {"like": f"doubles_{backend}", "baseline": f"doubles_{backend}"}
    require_rulings(court.judge(*files, family="backends", **like, **settings))


def require_rulings(report: Report) -> None:
    """Check what came of the first three candidates."""
    right, wrong, broken, *_ = report.candidates
    assert right.ruling in (Ruling.GOOD, Ruling.NOT_FASTER), right
    assert right.rows
    assert (wrong.ruling, wrong.evidence[0].what) == (Ruling.WRONG, "wrong result")
    assert (broken.ruling, broken.evidence[0].what) == (Ruling.WRONG, "does not compile")
    assert report.exit_code == 3


def require_opencl() -> None:
    try:
        if next(list_devices(), None) is None:
            pytest.skip("no OpenCL device (apt install pocl-opencl-icd)")
    except MissingDependencyError as error:
        pytest.skip(str(error))


LIKE = {"family": "backends", "like": "doubles_opencl", "baseline": "doubles_opencl"}
ENDLESS = "many.cl", "sparse.cl", "sparse.py"
PEEPING = "copied.cl", "beside.cl", "peeks.cl"


@pytest.fixture(scope="module")
def judged(make_court: Any) -> Report:
    """Return what came of three sources, and of files that include much or what they may not see.

    Beside them stands a wrong one in a folder that all users share.
    """
    require_opencl()
    court, most = make_court(), 3000
    endless = court.folder / "endless"
    endless.mkdir()
    for number in range(most):
        (endless / f"h{number}.h").write_text(f'#include "h{number + 1}.h"\n' if number + 1 < most else "")
    secret = court.folder.parent / "secret.h"
    secret.write_text("#define FACTOR 2.0f\n")
    with_factor = CL + body(CL_INDEX, "FACTOR")
    texts = {
        "endless/many.cl": "".join(f'#include "h{number}.h"\n' for number in range(most)) + CL + body(CL_INDEX, "2.0f"),
        "endless/sparse.cl": "",
        "endless/sparse.py": "",
        "defined.cl": "#define FACTOR 2.0f\n" + with_factor,
        "copied.cl": f'#include "{court.folder / "defined.cl"}"\n',
        "beside.cl": '#include "defined.cl"\n',
        "peeks.cl": f'#include "{secret}"\n' + with_factor,
    }
    files = [court.write(name, text) for name, text in texts.items()]
    for file in files[1:3]:
        os.truncate(file, 3 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with NamedTemporaryFile("w", prefix="shared", suffix=".cl", dir="/tmp") as file:
        file.write(CL + body(CL_INDEX, "3.0f"))
        file.flush()
        files = [*write_sources(court, "cl", CL, CL_INDEX), *files, Path(file.name)]
        with even_host():
            report: Report = court.judge(*files, **LIKE, measure=FEW, database=court.folder / "kept.sqlite")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB
    return report


def list_of(report: Report, *names: str) -> list[Candidate]:
    """Return what came of files by their names, or how these begin."""
    return [next(each for each in report.candidates if Path(each.file).name.startswith(name)) for name in names]


def test_opencl_sources_are_code_of_the_host_on_a_processor(judged: Report) -> None:
    require_rulings(judged)
    with closing(sqlite3.connect(judged.database)) as connection:
        found = [json.loads(text) for (text,) in connection.execute("SELECT details FROM timing")]
    assert len(found) >= 3
    assert all("round_trip_ns" in details for details in found)  # by the clock on the other side of the border


def test_files_without_end_cost_their_own_candidate_alone(judged: Report) -> None:
    assert [each.ruling for each in list_of(judged, *ENDLESS)] == [Ruling.UNUSABLE] * 3
    (defined,) = list_of(judged, "defined.cl")
    assert defined.ruling in (Ruling.GOOD, Ruling.NOT_FASTER)


@pytest.mark.usefixtures("namespaces")
def test_of_a_folder_that_all_users_share_a_candidate_sees_itself_alone(judged: Report, court: Court) -> None:
    (found,) = list_of(judged, "shared")
    assert found.evidence[0].what == "wrong result", found
    place = Path(found.file)
    sandbox = Warden(Path("/home/me"), [place], memory_bytes=1).confine(court.family, place, devices=True)
    assert sandbox is not None
    assert sandbox.visible == (str(court.family), str(place))


@pytest.mark.parametrize(("folder", "covered"), [("/opt/own", ("/opt/own",)), ("/tmp/own", ()), ("/", ())])
def test_a_candidate_sees_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, covered: tuple[str, ...]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", folder)
    sandbox = Warden(tmp_path, [], memory_bytes=1).confine(tmp_path, None, devices=True)
    assert sandbox is not None
    assert sandbox.covered == covered


def test_a_candidate_sees_no_lock_of_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPROF_LOCKS", str(tmp_path))
    (tmp_path / "gpu.lock").touch()
    sandbox = Warden(tmp_path / "project", [], memory_bytes=1).confine(tmp_path, None, devices=True)
    assert sandbox is not None
    assert sandbox.hidden == (str(tmp_path / "gpu.lock"),)


def test_a_candidate_sees_no_database_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPROF_LOCKS", str(tmp_path / "locks"))
    names = ("a.db", "a.db-wal", "b.sqlite3")
    for name in (*names, "notes.txt"):
        (tmp_path / name).touch()
    sandbox = Warden(tmp_path, [], memory_bytes=1).confine(tmp_path, None, devices=True)
    assert sandbox is not None
    assert sorted(sandbox.hidden) == [str(tmp_path / name) for name in names]
    assert sandbox.visible == (str(tmp_path / "notes.txt"),)


def test_links_that_lead_nowhere_end_nothing(tmp_path: Path) -> None:
    for name, target in (("long.cu", "a" * 300), ("loop.cu", "loop.cu"), ("gone.cu", "nothing")):
        (tmp_path / name).symlink_to(target)
        with pytest.raises(UsageError, match="there is no file"):
            check_file(tmp_path / name)
    (tmp_path / "notes.txt").touch()
    sandbox = Warden(tmp_path, [], memory_bytes=1).confine(tmp_path, None, devices=True)
    assert sandbox is not None
    assert sandbox.visible == (str(tmp_path / "notes.txt"),)


@pytest.mark.usefixtures("namespaces")
def test_an_include_reaches_no_other_candidate_and_no_hidden_file(judged: Report) -> None:
    """The confined process resolves includes, so they reach what it may read; a right source shows it by its text."""
    found = list_of(judged, *PEEPING)
    assert [each.ruling for each in found] == [Ruling.UNUSABLE] * 3
    assert all("which is neither beside it nor in" in each.message for each in found)


@pytest.mark.gpu
def test_cuda_sources(court: Court) -> None:
    check(court, "cu", CU, CU_INDEX, "cuda")


@pytest.mark.gpu
def test_the_command_judges_a_source_whose_workers_start_ahead(court: Court) -> None:
    family = ROOT / "cuprof" / "cli" / "template" / "kernels" / "scale"
    shutil.copytree(family, court.family.parent / "scale")
    file = court.write("mine.cu", (family / "plain.cu").read_text() + "// another text\n")
    words = ["judge", "scale", str(file), "--as-root", "--json", "--rounds=1", "measure=quick"]
    done = subprocess.run(
        [sys.executable, "-m", "cuprof", *words],
        cwd=court.project.root,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    (found,) = json.loads(done.stdout)["candidates"]
    assert found["ruling"] in ("good", "not_faster"), done.stderr
    assert found["rows"]


@pytest.mark.gpu
def test_a_library_in_a_sandbox_computes_on_the_gpu(court: Court) -> None:
    file = court.write(
        "mine.py",
        """
        @family.library("mine", requires="cupy")
        def mine(problem, tune, inputs, outputs):
            import cupy
            return lambda: cupy.multiply(inputs["x"], 2, out=outputs["y"])
        """,
    )
    (found,) = court.judge(file, family="backends", baseline="doubles_cuda").candidates
    assert found.ruling in (Ruling.GOOD, Ruling.NOT_FASTER), found
    assert found.rows


def test_a_source_stands_in_for_a_variant(court: Court) -> None:
    family = load_family(FAMILIES / "backends")
    own = dict(family.variants)
    file = court.write("döubles v2.cl", CL + body(CL_INDEX, "2.0f"))
    (name,) = extend(family, Extension(str(file), file.parent, "doubles_opencl"))
    assert name == "d_ubles_v2"
    variant = family.variant(name)
    assert (variant.backend, variant.source, variant.make) == ("opencl", str(file), own["doubles_opencl"].make)
    assert {key: family.variants[key] for key in own} == own
    again = court.write("doubles_opencl.cl", "")
    assert extend(family, Extension(str(again), again.parent, "doubles_opencl")) == ("doubles_opencl_candidate",)


def test_which_variant_a_source_stands_in_for() -> None:
    family = load_family(FAMILIES / "backends")
    assert find_like(family, "cuda", "adds_cuda") == "adds_cuda"
    with pytest.raises(UsageError, match="unknown cuda variant with a source 'adds_opencl'"):
        find_like(family, "cuda", "adds_opencl")
    family.baseline = "doubles_cpu"
    with pytest.raises(UsageError, match="name one with --like"):
        find_like(family, "cuda", "")
    family.baseline = "doubles_cuda"
    assert find_like(family, "cuda", "") == "doubles_cuda"


@pytest.mark.usefixtures("namespaces", "_even_host")
def test_the_baselines_own_source_is_a_candidate_like_any_other(court: Court) -> None:
    require_opencl()
    (found,) = court.judge(FAMILIES / "backends" / "behaviours.cl", **LIKE, measure=FEW).candidates
    assert found.ruling in (Ruling.GOOD, Ruling.NOT_FASTER), found.message  # two legs of one kernel may differ
