"""What a script or a notebook gives to `cuprof.compare` reaches the worker by value, and is known by its text."""

from __future__ import annotations

import importlib.util
import linecache
import operator
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cuprof
from cuprof.api import entry, result
from cuprof.api.snapshot import take_snapshot
from cuprof.core.errors import UsageError
from cuprof.core.project import Project
from cuprof.families import Family, Point
from cuprof.families.fingerprint import contract_text, source_text
from cuprof.families.kernel import Kernel, kernel
from cuprof.families.origin import load_family
from cuprof.results.queries import load
from tests.api.test_sweep import QUICK

GIVEN = Point(inputs="given")
TABLE = {"a": 1.5, "b": float("inf")}
WEIGHTS = np.arange(4.0)


def outer(x):  # type: ignore[no-untyped-def]
    return inner(x) + TABLE["a"] + WEIGHTS.sum()


def inner(x):  # type: ignore[no-untyped-def]
    return x if x.sum() < 0 else outer_again(-abs(x))


def outer_again(x):  # type: ignore[no-untyped-def]
    return inner(x)


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor, self.table = factor, np.arange(3.0)

    def __call__(self, x: Any) -> Any:
        return self.times(x, factor=self.factor) + self.table.sum()

    def times(self, x: Any, *, factor: float = 3) -> Any:
        return factor * x


@pytest.fixture(autouse=True)
def _typed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what this file defines be that of a main module, from which nothing can be imported."""
    for one in (outer, inner, outer_again, Scaled):
        monkeypatch.setattr(one, "__module__", "__main__")
    monkeypatch.setitem(sys.modules, "__main__", sys.modules[__name__])


def define(folder: Path, *functions: Any, **given: Any) -> Family:
    """Return the family of a call in a notebook."""
    place = folder / "made"
    place.mkdir(exist_ok=True)
    kernels = [one if isinstance(one, Kernel) else kernel(one) for one in functions]
    return entry.define(kernels, "", place, {"inputs": WEIGHTS, **given}, {})


def passed_on(folder: Path, *functions: Any, **given: Any) -> Family:
    """Return the family of a call as a worker has it."""
    loaded: Family = take_snapshot(define(folder, *functions, **given), folder).origin.load()
    return loaded


def run(family: Family, name: str, x: np.ndarray = WEIGHTS) -> Any:
    assert family.sample is not None
    outputs = {key: np.zeros(spec.shape) for key, spec in family.sample(GIVEN).signature.outputs.items()}
    call = family.variants[name].make(GIVEN, Point(), {"x": x}, outputs)
    call()
    call.deliver()
    return outputs["result"]


def test_a_function_comes_with_all_that_it_uses_by_value(tmp_path: Path) -> None:
    family = passed_on(tmp_path, outer)
    assert np.array_equal(run(family, "outer"), outer(WEIGHTS))
    assert np.array_equal(family.reference(GIVEN, {"x": WEIGHTS})["result"], outer(WEIGHTS))
    assert family.name == "made"
    assert family.variants["outer"].make.args[0].function.__globals__ is not globals()


def test_objects_methods_partials_lambdas_and_defaults_come_as_they_are_at_the_call(tmp_path: Path) -> None:
    scaled, numbers = Scaled(2.0), (2, 3)
    made = [lambda x, number=number, *, other=number + 1: x * number + other for number in numbers]
    family = passed_on(tmp_path, scaled, scaled.times, partial(np.multiply, 4), *made)
    names = ("Scaled", "times", "partial", "function", "function_2")
    assert tuple(family.variants) == names
    found = [float(run(family, name)[1]) for name in names]
    assert found == [5.0, 3.0, 4.0, 5.0, 7.0]


def test_what_a_parser_of_arguments_returned_comes_along(tmp_path: Path) -> None:
    args = Namespace(n=8, weights=WEIGHTS)
    assert run(passed_on(tmp_path, lambda x: x + args.n), "function")[0] == 8


def test_what_cannot_be_pickled_is_told_in_one_line(tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(
        UsageError, match=r"cannot be passed to the process that measures \(cannot pickle '_thread.lock'"
    ):
        passed_on(tmp_path, lambda x: lock and x)


def test_cells_of_a_notebook_have_their_lines_in_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def typed(x):\n    raise ValueError('in a cell')\n"
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile_cell(text), names)
    monkeypatch.setitem(linecache.cache, "<cell 1>", (len(text), None, text.splitlines(keepends=True), "<cell 1>"))
    family = define(tmp_path, names["typed"])
    text_here = source_text(family, family.variants["typed"])
    origin = take_snapshot(family, tmp_path).origin
    monkeypatch.delitem(linecache.cache, "<cell 1>")
    loaded = origin.load()
    assert linecache.getline("<cell 1>", 2) == "    raise ValueError('in a cell')\n"
    assert "in a cell" in text_here
    assert loaded.variants["typed"].name == "typed"


def compile_cell(text: str) -> Any:
    return compile(text, "<cell 1>", "exec")


CELL = """
import numpy as np

class Scaled:
    def __init__(self, factor):
        self.factor, self.table = factor, np.arange(3.0)

    def __call__(self, x):
        return self.factor * x + self.table.sum()

def scaled_by(factor, weights):
    return lambda x: x * factor + weights

def typed(x):
    return x + SCALE
"""


def test_what_is_typed_into_a_notebook_is_known_by_all_that_it_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {"__name__": "__main__", "SCALE": 2}
    exec(compile_cell(CELL), names)
    monkeypatch.setitem(linecache.cache, "<cell 1>", (len(CELL), None, CELL.splitlines(keepends=True), "<cell 1>"))
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(**names))
    monkeypatch.setattr(names["Scaled"], "__module__", "__main__")

    def text(function: Any) -> str:
        family = define(tmp_path, function)
        (variant,) = family.variants.values()
        return source_text(family, variant)

    scaled, by = names["Scaled"], names["scaled_by"]
    assert text(by(1.0, WEIGHTS)) == text(by(1.0, WEIGHTS.copy()))
    assert len({text(by(1.0, WEIGHTS)), text(by(2.0, WEIGHTS)), text(by(1.0, -WEIGHTS))}) == 3
    assert text(scaled(1.0)) == text(scaled(1.0)) != text(scaled(2.0))
    before = text(names["typed"])
    names["SCALE"] = 3
    assert text(names["typed"]) != before
    getter = operator.itemgetter(0)
    assert text(getter) == text(getter) != text(operator.itemgetter(0)), "nothing tells what it takes"


def test_own_modules_are_imported_by_the_worker_and_their_files_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lib" / "own_helpers.py"
    file.parent.mkdir()
    file.write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(file.parent))
    spec = importlib.util.find_spec("own_helpers")
    assert spec is not None
    own_helpers = importlib.import_module("own_helpers")
    family = take_snapshot(define(tmp_path, np.negative, own_helpers.twice), tmp_path)
    assert family.origin.files == (file,)
    assert str(file) in family.variants["twice"].files
    before = source_text(family, family.variants["twice"])
    file.write_text("def twice(x):\n    return x + x\n")
    assert source_text(family, family.variants["twice"]) != before
    assert family.origin.digests() != family.code
    del sys.modules["own_helpers"]


COUNTED = """
import numpy as np
import cuprof


class Counted:
    with open("count.txt", "a") as stream:
        stream.write("ran ")


SCALE = 2


def mine(x):
    return x * SCALE


def inputs(rng, n=(64, 128, 256)):
    return rng.random(n, np.float32)


if __name__ == "__main__":
    SETTINGS = SETTINGS_HERE
result = cuprof.compare(lambda x: x + x, mine, inputs=inputs, n=(64, 128, 256), settings=SETTINGS_HERE)
if isinstance(result.rows, list):
    print("rows", [row["variant"] for row in result.rows], sorted(result.verdicts))
"""


@pytest.fixture
def script(project: Project) -> Path:
    path = project.root / "base.py"
    path.write_text(COUNTED.replace("SETTINGS_HERE", repr(list(QUICK))), encoding="utf-8")
    return path


def run_script(script: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, script.name],
        cwd=script.parent,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": str(script.parent)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


@pytest.mark.timeout(600)
def test_a_script_runs_once_where_it_is_planned_and_once_where_it_is_measured_and_ends_as_a_sweep_of_it_does(
    script: Path, cli: Callable[..., Any]
) -> None:
    count = script.with_name("count.txt")
    sweep = cli("sweep", "base.py", *QUICK)
    assert sweep.exit_code == 0
    assert count.read_text().split() == ["ran", "ran"], "three problems, planned and measured"
    count.unlink()
    done = run_script(script)
    assert done.returncode == 0, done.stderr
    assert count.read_text().split() == ["ran"], "the worker unpickles, and runs nothing of the script"
    assert "6 trials, 6 of them stored already" in done.stderr, "it is the same family"
    table, swept = done.stdout.splitlines(), sweep.out.splitlines()
    assert table[-1].startswith("rows ['function', 'mine'")
    for begin in ("base · n=64 ", "base · n=128 ", "base · n=256 ", "function (base) ", "best: ", "against function"):
        found = [[line for line in lines if line.startswith(begin)] for lines in (table, swept)]
        assert found[0], begin
        assert len(found[0]) == len(found[1])


MEETING = """
import os, time
from pathlib import Path
Path(f"{os.getpid()}.pid").touch()
for _ in range(2000):
    if len([*Path().glob("*.pid")]) == 2:
        break
    time.sleep(0.05)
else:
    raise RuntimeError("nobody else imports this file meanwhile")
"""


def test_a_script_that_takes_long_to_import_is_imported_by_planner_and_worker_at_once(
    script: Path, cli: Callable[..., Any]
) -> None:
    script.write_text(MEETING + script.read_text())
    done = cli("sweep", "base.py", *QUICK)
    assert done.exit_code == 0, done.err


def test_a_process_that_a_worker_starts_begins_no_sweep(script: Path, cli: Callable[..., Any]) -> None:
    starts = (
        "import os, subprocess, sys\n"
        "def mine(x):\n"
        "    if 'nested' not in sys.argv:\n"
        "        subprocess.run([sys.executable, 'nested.py', 'nested'], check=True)\n"
        "    return 2 * x\n"
    )
    script.with_name("nested.py").write_text(script.read_text().replace("Counted", "Nested"))
    script.write_text(
        "import numpy as np\nimport cuprof\n"
        + starts
        + "cuprof.compare(lambda x: x + x, mine, inputs=np.ones(8, np.float32))\n"
    )
    done = cli("sweep", "base.py", *QUICK)
    assert done.exit_code == 0, done.err
    assert script.with_name("count.txt").read_text().startswith("ran ")
    assert len(load("sweeps")) == 1


def test_a_module_that_compares_when_it_is_imported_defines_nothing_twice(
    script: Path, cli: Callable[..., Any]
) -> None:
    script.with_name("other.py").write_text(script.read_text())
    script.write_text("import other\n" + script.read_text())
    done = cli("sweep", "base.py", *QUICK)
    assert "base.py makes two comparisons" in done.err
    assert done.exit_code == 2


LONE = '''
import numpy as np
from beside import scale
import cuprof

TABLE = [1, 2]

def mine(x):
    return scale(x)

def other(x):
    """Another."""
    return x + TABLE[0]

def inputs(n=8):
    return np.ones(n)

cuprof.compare(np.negative, mine, other, inputs=inputs, n=(4, 8))
'''  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("lone.py", "[1, 2]", "[2, 2]", {"other"}),
        ("beside.py", "3 *", "4 *", {"mine"}),
        ("beside.py", "5 *", "6 *", set()),
        ("lone.py", "n=8", "n=9", {"contract"}),
        ("lone.py", "np.negative, mine", "np.negative,  mine", set()),
        ("unused.py", "1", "2", set()),
    ],
)
def test_a_file_by_itself_is_known_by_what_each_function_uses(
    tmp_path: Path, file: str, old: str, new: str, changed: set[str]
) -> None:
    files = {
        "lone.py": LONE,
        "beside.py": "def scale(x):\n    return 3 * x\n\ndef unused(x):\n    return 5 * x\n",
        "unused.py": "x = 1\n",
    }

    def texts() -> dict[str, str]:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        family = load_family(tmp_path / "lone.py")
        assert family.usual["problem"] == {"n": (4, 8)}
        return {name: source_text(family, variant) for name, variant in family.variants.items()} | {
            "contract": contract_text(family)
        }

    before = texts()
    assert set(before) == {"negative", "mine", "other", "contract"}
    files[file] = files[file].replace(old, new)
    after = texts()
    assert {name for name in before if before[name] != after[name]} == changed


@pytest.mark.parametrize("name", ["a b", "a/b", "_a", 3])
def test_a_name_that_no_family_may_have_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"name is .*; make it of letters"):
        cuprof.compare(np.negative, inputs=lambda n=8: np.ones(n), name=name)
    assert not [*tmp_path.iterdir()]


def test_settings_may_be_a_single_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(result, "run", lambda family, settings, project: (family.name, settings))
    found = cuprof.compare(np.negative, inputs=np.ones(8), name="mine", settings="measure=quick")
    assert found == ("mine", ("measure=quick",))


def test_a_worker_starts_with_a_scripts_libraries_before_the_script_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch takes seconds to import."""
    begun: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in {*entry.LIBRARIES} - {"torch", "numba"}:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(entry, "prestart", lambda modules: begun.extend(modules))
    monkeypatch.setattr(result, "run", lambda *_: [*begun])
    assert cuprof.compare(np.negative, inputs=np.ones(8)) == ["torch", "numba"]


def test_an_object_that_is_made_by_a_call_is_pickled(tmp_path: Path) -> None:
    pair = operator.itemgetter(0)
    assert float(run(passed_on(tmp_path, np.negative, lambda x: -pair((x, 1))), "function")[1]) == -1.0


def test_a_module_beside_the_script_that_changes_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text("import beside_it\n")
    (tmp_path / "beside_it.py").write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    beside = importlib.import_module("beside_it")
    family = entry.define([kernel(beside.twice)], "", tmp_path / "script.py", {"inputs": WEIGHTS}, {})
    taken = take_snapshot(family, tmp_path)
    assert (taken.origin.files, taken.variants["twice"].files) == ((tmp_path / "beside_it.py",), ())
    (tmp_path / "beside_it.py").write_text("def twice(x):\n    return 3 * x\n")
    assert taken.origin.load().code != taken.code  # which a worker compares before each job
    del sys.modules["beside_it"]


def test_functions_of_a_script_name_its_file_wherever_the_worker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python script.py` names it by a relative path, and Triton reads the text of its functions from there."""
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text("def mine(x):\n    return 2 * x\n", encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(Path("script.py").read_text(encoding="utf-8"), "script.py", "exec"), names)
    made = passed_on(tmp_path, names["mine"])
    assert made.variants["mine"].content.func.__code__.co_filename == str(tmp_path / "script.py")
