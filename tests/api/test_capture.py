"""What a call is given is written as a file that loads by itself, or it is told why it cannot be."""

from __future__ import annotations

import importlib.util
import operator
import re
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cuprof
from cuprof.api import entry
from cuprof.api.capture import Capture
from cuprof.api.kernels import kernel
from cuprof.core.errors import UsageError
from cuprof.families import Array, Copy, Point, Reduced
from cuprof.families.fingerprint import contract_text, source_text
from cuprof.families.loader import load_family
from cuprof.families.trace import place_of

TABLE = {"a": 1.5, "b": float("inf")}
WEIGHTS = np.arange(4.0)


def outer(x):  # type: ignore[no-untyped-def]
    return inner(x) + TABLE["a"] + WEIGHTS.sum()


def inner(x):  # type: ignore[no-untyped-def]
    return x if x.sum() < 0 else outer_again(-abs(x))


def outer_again(x):  # type: ignore[no-untyped-def]
    return inner(x)


def write(folder: Path, call: str, capture: Capture) -> Path:
    return capture.write(folder, "made", call)


@pytest.fixture(autouse=True)
def _typed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the functions of this file be those of a main module, from which nothing can be imported."""
    for one in (outer, inner, outer_again):
        monkeypatch.setattr(one, "__module__", "__main__")


def test_a_function_comes_with_all_that_it_uses(tmp_path: Path) -> None:
    capture = Capture()
    words = [capture.express(outer, "f"), f"inputs={capture.express((WEIGHTS,), 'inputs')}"]
    path = write(tmp_path, f"cuprof.compare({', '.join(words)})", capture)
    family = load_family(path)
    problem = Point(inputs="given")
    inputs = {"x": np.arange(4.0)}
    expected = family.reference(problem, inputs)
    assert np.array_equal(expected["result"], outer(inputs["x"]))
    assert family.name == "made"


def test_the_same_things_are_written_once_and_others_apart(tmp_path: Path) -> None:
    def captured(number: float) -> Path:
        capture = Capture()
        return write(tmp_path, f"cuprof.compare({capture.express(lambda x: x * number, 'f')}, inputs=3)", capture)

    assert captured(1.0) == captured(1.0) != captured(2.0)
    assert captured(1.0).is_relative_to(tmp_path)


def test_a_closure_is_told_by_its_values(tmp_path: Path) -> None:
    def scaled_by(factor: Any) -> Any:
        return lambda x: x * factor

    capture = Capture()
    name = capture.express(scaled_by(np.float32(2)), "f")
    assert capture.lines == ["factor = numpy.float32(2.0)", f"{name} = lambda x: x * factor"]
    with pytest.raises(UsageError, match="two things that the functions use are called factor; rename one of them"):
        capture.express(scaled_by(3), "g")


def test_tunables_and_sources_are_written_as_they_were_said(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k(float *x, int n) {}')
    capture = Capture()
    given = kernel(
        "k", source=str(source), threads=lambda n: n * 2, block=32, constants={"c": "x"}, w=[1, 2],
        scratch={"parts": ("blocks", "float32")}, results={"x": Reduced("parts", "max")}, setup=[Copy("x", "parts")],
    )  # fmt: skip
    inputs = 'inputs=lambda n=8: {"x": numpy.ones(n), "n": 8}'
    call = f'cuprof.compare({capture.express(given, "k")}, {inputs}, outputs="x", reference=abs)'
    family = load_family(write(tmp_path / "f", call, capture))
    program = family.variant("k").make(Point(n=8), Point(w=2))
    assert program.launches[0].grid == (1,)
    assert program.constants == {"c": "x"}
    assert program.scratch == {"parts": Array((1,), "float32")}
    assert (program.results, program.setup) == ({"x": Reduced("parts", "max")}, (Copy("x", "parts"),))
    assert family.usual["tune"] == {"w": ("all",)}
    assert source_text(family, family.variant("k")) == source.read_text()


def test_importable_things_are_imported_and_own_files_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_helpers.py").write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_helpers  # type: ignore[import-not-found]

    capture = Capture()
    words = [capture.express(np.add, "f"), capture.express(own_helpers.twice, "g")]
    assert words == ["add", "twice"]
    assert capture.lines == ["from numpy import add", "from own_helpers import twice"]
    assert list(capture.folders) == [str(tmp_path)]
    assert list(capture.files) == [str(tmp_path / "own_helpers.py")]
    del sys.modules["own_helpers"]


SCALED = """
import numpy as np


class Scaled:
    def __init__(self, factor):
        self.factor, self.table = factor, np.arange(3.0)

    def __call__(self, x):
        return self.times(x, factor=self.factor) + self.table.sum()

    def times(self, x, *, factor = 3):
        return factor * x
"""


def loaded(capture: Capture, folder: Path, *words: str) -> list[Any]:
    """Return what is called in the file that a capture writes."""
    path = write(folder, f"made = [{', '.join(words)}]", capture)
    module: dict[str, Any] = {"__file__": str(path)}
    exec(compile(path.read_text(), path, "exec"), module)
    return list(module["made"])


def test_a_default_is_what_it_was_when_the_function_was_made(tmp_path: Path) -> None:
    capture = Capture()
    made = [lambda x, number=number, *, other=number + 1: x * number + other for number in (2, 3)]
    first, second = loaded(capture, tmp_path, *(capture.express(one, f"f_{n}") for n, one in enumerate(made)))
    assert [(one(10), one.__name__) for one in (first, second)] == [(23, "<lambda>"), (34, "<lambda>")]


def test_objects_of_own_classes_their_methods_and_partials_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text(SCALED)
    spec = importlib.util.spec_from_file_location("__main__", tmp_path / "script.py")
    assert spec is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "__main__", script)
    exec(compile(SCALED, tmp_path / "script.py", "exec"), vars(script))
    capture, scaled = Capture(), script.Scaled(2.0)
    words = [capture.express(one, f"f_{n}") for n, one in enumerate((scaled, scaled.times, partial(inner, x=WEIGHTS)))]
    called, times, bound = loaded(capture, tmp_path / "made", *words)
    assert (called(10.0), times(10.0), times.__self__ is called) == (23.0, 30.0, True)
    assert np.array_equal(bound(), inner(WEIGHTS))


def fails(x):  # type: ignore[no-untyped-def]
    raise ValueError(x)


class Failing:
    def __call__(self, x):  # type: ignore[no-untyped-def]
        raise ValueError(x)


def test_what_raises_in_the_file_is_told_by_the_line_that_somebody_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (fails, Failing):
        monkeypatch.setattr(one, "__module__", "__main__")
    monkeypatch.setitem(sys.modules, "__main__", sys.modules[__name__])
    capture = Capture()
    functions = loaded(capture, tmp_path, *(capture.express(one, f"f_{n}") for n, one in enumerate((fails, Failing()))))
    places = []
    for function in functions:
        with pytest.raises(ValueError, match="3") as caught:
            function(3)
        places.append(place_of(caught.value, tmp_path))
    assert places[0] == f" (test_capture.py, line {fails.__code__.co_firstlineno + 1}, in fails)"
    assert re.fullmatch(r" \(made\.py, line \d+, in __call__\)", places[1])


def test_what_a_parser_of_arguments_returned_is_written(tmp_path: Path) -> None:
    capture = Capture()
    found, plain = loaded(
        capture,
        tmp_path,
        capture.express(Namespace(n=8, weights=WEIGHTS), "args"),
        capture.express(SimpleNamespace(n=9), "other"),
    )
    assert (found.n, found.weights.tolist(), plain) == (8, WEIGHTS.tolist(), SimpleNamespace(n=9))


def test_what_has_no_text_is_told() -> None:
    capture = Capture()
    with pytest.raises(UsageError, match=r"f is a itemgetter that a call has made, which cannot be told"):
        capture.express(operator.itemgetter(1), "f")
    exec_names: dict[str, Any] = {"__name__": "__main__"}
    exec("def typed(x):\n    return x", exec_names)
    with pytest.raises(UsageError, match=r"the text of typed is not known"):
        capture.express(exec_names["typed"], "f")


def test_two_lambdas_of_one_line_are_told_apart() -> None:
    capture = Capture()
    one, two = (lambda x: x + 1, lambda x: x + 2)
    capture.express(one, "f"), capture.express(two, "g")
    assert capture.lines == ["f = lambda x: x + 1", "g = lambda x: x + 2"]


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
    monkeypatch.setattr(entry, "_run", lambda file, settings, project: (file.stem, settings))
    found = cuprof.compare(np.negative, inputs=np.ones(8), name="mine", settings="measure=quick")
    assert found == ("mine", ("measure=quick",))
