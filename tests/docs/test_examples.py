"""Every named block of the documents is a file that is swept; those for a GPU where there is one."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cuprof.core.project import Project
from tests.conftest import Result
from tests.docs.claims import ROOT

PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorials").glob("*.md")])
TEXT = "".join(path.read_text(encoding="utf-8") for path in PAGES if path.name not in ("api.md", "judging.md"))
BLOCKS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TEXT, re.DOTALL))
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "examples").glob("*.cu")}
READY = ROOT / "tests" / "data" / "families" / "forms" / "ready.ptx"
DEVICE = ("torch", "triton", "cupy", "pyopencl")
ON_THE_HOST = ("jax",)
"""Libraries that an example needs and that need no GPU."""
QUICK = ("measure=quick", "measure.modes=[cold]", "measure.max_seconds=0.05", "measure.settle_seconds=0", "report=none")


def modules_of(text: str) -> list[str]:
    named = re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)
    return sorted({"pyopencl"} & ({"pyopencl"} if '"opencl"' in text else set()) | set(named) & set(DEVICE))


def needs_gpu(text: str) -> bool:
    return bool(modules_of(text)) or "__global__" in text or ".cu" in text


def numba_stubs() -> str:
    """Return the source in which Numba names the functions of NumPy that it replaces."""
    found = find_spec("numba_cuda") or find_spec("numba")
    files = Path(found.origin).parent.rglob("arrayobj.py") if found and found.origin else ()
    return "".join(file.read_text(encoding="utf-8") for file in files)


CASES = [
    pytest.param(name, marks=[pytest.mark.gpu, pytest.mark.timeout(900)] if needs_gpu(text) else [])
    for name, text in BLOCKS.items()
    if name != "script.py"
]


def test_the_page_shows_every_kind_once() -> None:
    assert len(BLOCKS) == TEXT.count("```python")
    assert set(SOURCES) == set(re.findall(r"\(examples/(\w+\.cu)\)", TEXT))


def test_a_triton_kernel_takes_five_lines() -> None:
    text = BLOCKS["add_triton.py"].split("@triton.jit")[1]
    added = [line for line in text[text.index("def inputs") :].splitlines() if line.strip()]
    assert len(added) + BLOCKS["add_triton.py"].count("import cuprof") == 5


def test_every_source_compiles(project: Project, cli: Callable[..., Result]) -> None:
    for file, text in {**BLOCKS, **SOURCES}.items():
        (project.root / file).write_text(text, encoding="utf-8")
    shutil.copy(READY, project.root)
    for name, count in (("twice.py", 3), ("doubled.py", 9)):
        done = cli("check", name, "variants=!host_code" if name == "doubled.py" else "variants=all")
        assert f"{count} of {count} programs compile" in done.out, done.out + done.err


@pytest.mark.filterwarnings("default")  # of the libraries that the examples import
@pytest.mark.parametrize("name", CASES)
def test_an_example_runs_and_all_of_it_is_right(
    name: str, project: Project, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "1")  # its trial compilations for the host take a minute
    used = [module for module in ON_THE_HOST if f"import {module}" in BLOCKS[name]]
    absent = [module for module in (*modules_of(BLOCKS[name]), *used) if find_spec(module) is None]
    if absent:
        pytest.skip(f"{', '.join(absent)} is not installed")
    if "numba import cuda" in BLOCKS[name] and not hasattr(np, "row_stack") and "row_stack" in numba_stubs():
        pytest.skip("this Numba's CUDA target asks NumPy for row_stack, which NumPy 2.5 has no more")
    for file, text in {name: BLOCKS[name], **SOURCES}.items():
        (project.root / file).write_text(text, encoding="utf-8")
    shutil.copy(READY, project.root)
    done = cli("sweep", name, *QUICK, "problem.n=1000" if "n=2**20" in BLOCKS[name] else "check=fresh", "output=json")
    assert done.exit_code == int("forgot_the_mean" in BLOCKS[name]), done.err
    trials = json.loads(done.out)["trials"]
    assert trials
    states = {trial["variant"]: trial["state"] for trial in trials}
    assert states.pop("forgot_the_mean", "wrong_result") == "wrong_result"
    assert set(states.values()) == {"ok"}, done.err


def test_the_script_shows_its_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "script.py"
    path.write_text(BLOCKS["script.py"].replace("1_000_000", "1_000"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    shown = capsys.readouterr()
    assert shown.out.count("sqrt (base)") == 1
    assert f"results are stored in {tmp_path}" in shown.err
    assert len(list(tmp_path.glob("pages/*.html"))) == 1


@pytest.mark.timeout(600)
def test_the_script_for_ci_passes_no_change_and_fails_a_wrong_one(
    tmp_path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script fails a wrong change; of no change its commands are run in this process, in a fifth of the time."""
    text = (ROOT / "docs" / "tutorials" / "check-in-ci.md").read_text(encoding="utf-8")
    script = re.search(r"```bash\n(.*?)```", text, re.DOTALL)[1]  # type: ignore[index]
    script = script.replace("experiment=reduction", "experiment=scale")
    mine, main = tmp_path / "mine", tmp_path / "main"
    assert cli("init", str(mine)).exit_code == 0
    (mine / "check_speed.sh").write_text(script)
    (tmp_path / "cuprof").write_text(f'#!/bin/sh\nexec {sys.executable} -m cuprof "$@"\n')
    (tmp_path / "cuprof").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "GIT_CONFIG_GLOBAL": os.devnull}

    def run(*words: str) -> int:
        return subprocess.run(words, cwd=mine, env=settings, capture_output=True, timeout=500).returncode

    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("remote", "add", "origin", "."),
        ("commit", "-qm", "a"),
        ("fetch", "-q", "origin"),
        ("worktree", "add", "-q", str(main), "origin/main"),
    ):
        assert run("git", "-c", "user.name=a", "-c", "user.email=a@b", *words) == 0
    store = f"sqlite:///{tmp_path / 'check.sqlite'}"
    sweep, compare = (
        shlex.split(line.replace("$store", store))
        for line in re.findall(r"^ *cuprof (.+?) (?:\|\||>)", script, re.MULTILINE)
    )
    for folder in (main, mine):
        monkeypatch.chdir(folder)
        assert cli(*sweep).exit_code == 0
    assert cli(*compare).exit_code == 0
    assert run("git", "worktree", "remove", "--force", str(main)) == 0
    family = mine / "kernels" / "scale" / "family.py"
    family.write_text(
        family.read_text().replace("lambda: np.multiply(x, np.float32(2)", "lambda: np.multiply(x, np.float32(3)")
    )
    assert run("bash", "check_speed.sh") == 1
    assert "2 broken" in (mine / "comparison.md").read_text()
    worktrees = subprocess.check_output(["git", "worktree", "list"], cwd=mine, text=True)
    assert len(worktrees.splitlines()) == 1
