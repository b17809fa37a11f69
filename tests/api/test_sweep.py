"""A file that calls cuprof.compare is swept as any family is: checked, stored, resumed, reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.core.project import Project
from tests.conftest import Result

FILE = """
import numpy as np
import cuprof

def mine(x):
    return [x * np.float32(2) for _ in range(200)][0]  # not the fastest: that one and the baseline are timed again

def wrong(x):
    return x * np.float32(2.01)

@cuprof.kernel(times=[1, 2])
def tuned(x, times):
    for _ in range(times):
        y = x + x
    return y

def inputs(rng, n=64):
    return rng.random(n, np.float32)

cuprof.compare(mine, wrong, tuned, inputs=inputs, reference=lambda x: 2 * x)
"""
QUICK = ("measure=quick", "measure.modes=[cold]", "measure.max_seconds=0.01", "measure.settle_seconds=0", "report=none")


FUNCTIONS_IN_C = """
import numpy as np
import cuprof

def inputs(rng, n=64):
    return {"x": rng.random(n, np.float32), "y": np.empty(n, np.float32), "count": np.int32(n)}

BODY = "(const float *x, float *y, int n) { for (int i = 0; i < n; i += STEP) y[i] = 2 * x[i]; "
right = cuprof.kernel("right", source="int right" + BODY + "return 0; }", compiler="gcc", STEP=[1])
plain = cuprof.kernel("plain", source='extern "C" void plain' + BODY + "}", compiler="g++", STEP=[1])
half = cuprof.kernel("half", source="void half" + BODY + "}", compiler="gcc", STEP=[2])
fails = cuprof.kernel("fails", source="int fails" + BODY + "return 7; }", compiler="gcc", STEP=[1])
cuprof.compare(right, plain, half, fails, inputs=inputs, outputs="y", reference=lambda x: 2 * x)
"""


@pytest.fixture
def file(project: Project) -> Path:
    path = project.root / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_it_is_checked_stored_and_not_measured_again(file: Path, cli: Callable[..., Result]) -> None:
    done = cli("sweep", "mine.py", *QUICK, "output=json")
    assert done.exit_code == 1
    trials = json.loads(done.out)["trials"]
    assert [(trial["variant"], trial["state"]) for trial in trials] == [
        ("mine", "ok"), ("wrong", "wrong_result"), ("tuned", "ok"), ("tuned", "ok"),
    ]  # fmt: skip
    assert [trial["tunables"] for trial in trials[2:]] == [{"times": 1}, {"times": 2}]
    assert "float32: 8·√terms·eps" in trials[1]["message"]
    assert "results are stored in" in done.err
    file.write_text(FILE.replace("2.01", "2"), encoding="utf-8")
    again = cli("sweep", "mine.py", *QUICK)
    assert again.exit_code == 0
    assert "4 trials, 1 of them stored already" in again.err
    assert "2 stored trials are timed again, to see whether stored times still hold: mine/" in again.err
    assert "times of sweep 1 " in again.err
    assert cli("report", "mine.py").out.strip().endswith("mine.html")
    assert "no counters by instruction: it runs on a processor" in cli("source", "mine").err


def test_settings_choose_of_it(file: Path, cli: Callable[..., Result]) -> None:
    done = cli(
        "sweep", "mine.py", "variants=tuned", "tune.times=2", "problem.n=32", *QUICK, "dry_run=true", "output=json"
    )
    assert [row["label"] for row in json.loads(done.out)] == ["mine/tuned · n=32 · times=2"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("rng.random(n, np.float32)", "1 / 0", "inputs() at n=64 raised ZeroDivisionError: division by zero (mine.py,"),
        ("reference=lambda x: 2 * x", "axes=3", "unknown argument or problem axis 'axes' of family mine"),
        ("reference=lambda x: 2 * x", "problems=[{'n': 64}]", "; give each axis by its name: rows=[64, 128], columns"),
        ("reference=lambda x: 2 * x", "tolerence=1e-3", "one or a list of them; did you mean tolerance=?"),
        ("inputs=inputs,", "inptus=inputs,", "give inputs=, a function that returns them; it is written inptus= here"),
        ("reference=lambda x: 2 * x", "tolerance='1e-3'", "tolerance is '1e-3'; give a relative bound"),
        ("reference=lambda x: 2 * x", "tolerance=(1e-3, -1)", r"tolerance is (0.001, -1); a bound is 0 or more"),
        ("inputs=inputs,", "inputs=np.array(['a'], object),", "input x is an array of object; it must be an array"),
        ("reference=lambda x: 2 * x", "inplace=1", "problem axis 'inplace' of family mine: did you mean in_place"),
        ("inputs=inputs,", "cuprof.kernel('f', source='f.c'), inputs=inputs, output='y',", "did you mean outputs"),
        ("inputs=inputs,", "cuprof.kernel('f', source='f.c'), inputs=inputs,", "f.c does not exist; its folder has no"),
        ("reference=lambda x: 2 * x", "reference='f'", "reference is of type str; give the function itself (mine.py,"),
        ("reference=lambda x: 2 * x", "at_most=5", "at_most has a value of type int; give a name, or a list of names"),
        ("reference=lambda x: 2 * x", "files=[5]", "files has a value of type int; give a name, or a list of names"),
        ("inputs=inputs,", "None, inputs=inputs,", "an implementation is of type NoneType; give the function itself"),
        ("times=[1, 2]", "times=[]", "tunable times is []"),
        ("import numpy as np", "import numpyy as np", "mine.py raised ModuleNotFoundError"),
    ],
)  # fmt: skip
def test_a_fault_is_one_line(file: Path, cli: Callable[..., Result], old: str, new: str, told: str) -> None:
    file.write_text(FILE.replace(old, new), encoding="utf-8")
    done = cli("sweep", "mine.py", *QUICK)
    assert done.exit_code == 2
    assert told in done.err
    assert done.err.count("error:") == 1
    assert done.err.count("mine.py: ") <= 1


def test_settings_of_the_call_hold_in_a_sweep_and_typed_ones_go_before(file: Path, cli: Callable[..., Result]) -> None:
    own = '["measure=quick", "measure.max_seconds=0.02", "limits.check_s=7", "report=none"]'
    file.write_text(FILE.replace("inputs=inputs,", f"inputs=inputs, settings={own},"), encoding="utf-8")
    shown = cli("sweep", "mine.py", "limits.check_s=8", "--cfg", "job").out
    assert "max_seconds: 0.02" in shown
    assert "check_s: 8" in shown
    assert "max_seconds: 0.02" not in cli("sweep", "mine.py", "measure=precise", "--cfg", "job").out
    named = FILE.replace("cuprof.compare(", f"OWN = {own}\ncuprof.compare(").replace(
        "inputs=inputs,", "inputs=inputs, settings=OWN,"
    )
    file.write_text(named, encoding="utf-8")
    assert "check_s: 7" in cli("sweep", "mine.py", "--cfg", "job").out
    file.write_text(named.replace("settings=OWN", "settings=list(OWN)"), encoding="utf-8")
    told = cli("sweep", "mine.py", "--cfg", "job").err
    assert "settings= must be a list of texts: the file is not run yet" in told


def test_an_endless_loop_ends_at_the_limit_that_the_file_sets(file: Path, cli: Callable[..., Result]) -> None:
    text = FILE.replace("return x * np.float32(2.01)", "while True: pass")
    text = text.replace("inputs=inputs,", 'inputs=inputs, settings=["limits.check_s=1"],')
    file.write_text(text, encoding="utf-8")
    done = cli("sweep", "mine.py", *QUICK, "output=json")
    states = {trial["variant"]: trial["state"] for trial in json.loads(done.out)["trials"]}
    assert states["wrong"] == "timed_out"


def test_a_file_may_have_any_name(file: Path, cli: Callable[..., Result]) -> None:
    file.rename(file.with_name("größe 2.py"))
    assert cli("sweep", "größe 2.py", "variants=tuned", *QUICK).exit_code == 0
    assert cli("report", "größe 2.py").out.endswith("gr_e_2.html\n")


def test_functions_in_c_are_called(file: Path, cli: Callable[..., Result]) -> None:
    file.write_text(FUNCTIONS_IN_C, encoding="utf-8")
    done = cli("sweep", "mine.py", *QUICK, "output=json")
    states = {trial["variant"]: trial["state"] for trial in json.loads(done.out)["trials"]}
    assert states == {"right": "ok", "plain": "ok", "half": "wrong_result", "fails": "launch_error"}


def test_a_reference_that_raises_is_no_variants_fault(file: Path, cli: Callable[..., Result]) -> None:
    file.write_text(FILE.replace("lambda x: 2 * x", "lambda x: x[1000]"), encoding="utf-8")
    done = cli("sweep", "mine.py", *QUICK, "output=json")
    assert done.exit_code == 1
    assert {trial["state"] for trial in json.loads(done.out)["trials"]} == {"skipped"}
    assert done.err.count("failed: the family's reference() at n=64 raised IndexError") == 1
    assert "(mine.py, line 20, in <lambda>)" in done.err


def test_inputs_that_end_their_process_are_told(file: Path, cli: Callable[..., Result]) -> None:
    file.write_text(FILE.replace("return rng", "import os; os.abort(); return rng"), encoding="utf-8")
    done = cli("sweep", "mine.py", *QUICK)
    assert done.exit_code == 2
    assert "SIGABRT" in done.err
