"""A `@triton.jit` function is a kernel by itself: its text, its constants, its launch. Triton itself stands aside."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuprof.api.entry import define
from cuprof.api.snapshot import take_snapshot
from cuprof.core.errors import FamilyError, UsageError
from cuprof.families import Family, Point
from cuprof.families.fingerprint import source_text
from cuprof.families.origin import load_family

STAND_IN = {
    "__init__.py": """
        from triton import language
        from triton.runtime import Config, autotune, cdiv, jit
    """,
    "language.py": """
        class constexpr:
            def __init__(self, value):
                self.value = value
    """,
    "runtime.py": """
        import inspect

        class Parameter:
            def __init__(self, one):
                self.name, self.is_constexpr = one.name, "constexpr" in str(one.annotation)

        class JITFunction:
            def __init__(self, fn):
                self.fn, self.__name__, self.__module__ = fn, fn.__name__, fn.__module__
                self.params = [Parameter(one) for one in inspect.signature(fn).parameters.values()]

        class Config:
            def __init__(self, kwargs, num_warps=4, num_stages=3):
                self.kwargs, self.num_warps, self.num_stages, self.pre_hook = kwargs, num_warps, num_stages, None

            def all_kwargs(self):
                return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}

        class Autotuner:
            def __init__(self, fn, configs):
                self.fn, self.configs = fn, configs

        def autotune(configs, key):
            return lambda fn: Autotuner(fn, configs)

        def jit(fn):
            return JITFunction(fn)

        def cdiv(n, width):
            return -(-n // width)
    """,
}
FILE = """
import numpy as np
import triton
import triton.language as tl

import cuprof
from helpers import twice

SCALE = tl.constexpr(1)
CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((256, 2), (512, 4))]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def scale(x, y, n, ROUNDED: tl.constexpr, BLOCK: tl.constexpr):
    y = twice(x * SCALE)  # a comment


def inputs(rng, n=1000):
    return {"x": rng.random(n, np.float32), "y": np.empty(n, np.float32)}


mine = cuprof.kernel(scale, grid=lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), ROUNDED=lambda n: n + 24)
cuprof.compare(mine, inputs=inputs, outputs="y", reference=lambda x: 2 * x)
"""
HELPERS = "import triton\n\nFACTOR = 2\n\n\n@triton.jit\ndef twice(x):\n    return FACTOR * x\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = tmp_path / "site"
    (site / "triton-3.0.dist-info").mkdir(parents=True)
    (site / "triton").mkdir()
    for name, text in STAND_IN.items():
        (site / "triton" / name).write_text(textwrap.dedent(text))
    (tmp_path / "helpers.py").write_text(HELPERS)
    monkeypatch.syspath_prepend(str(site))
    before = dict(sys.modules)
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        del sys.modules[name]
    yield tmp_path
    for name in {*sys.modules} - {*before}:  # never all at once: other threads may import something meanwhile
        sys.modules.pop(name, None)
    sys.modules.update(before)


def load(folder: Path, old: str = "", new: str = "") -> Family:
    assert old in FILE
    (folder / "made.py").write_text(FILE.replace(old, new))
    return load_family(folder / "made.py")


def program(family: Family, **tunables: Any) -> Any:
    problem = Point(n=1000)
    assert family.sample
    family.learn({problem: family.sample(problem)})
    return family.variants["scale"].make(problem, Point(**tunables))


def test_it_is_launched_on_what_its_parameters_name_with_its_constants(folder: Path) -> None:
    made = program(load(folder), BLOCK=512, num_warps=4, num_stages=3)
    assert [(one.kernel, one.grid, one.args) for one in made.steps] == [("scale", (2,), ("x", "y", 1000))]
    assert made.defines == {"BLOCK": 512, "num_warps": 4, "num_stages": 3, "ROUNDED": 1024}


def test_a_constant_of_the_name_of_an_axis_is_that(folder: Path) -> None:
    made = program(load(folder, "y, n, ROUNDED", "y, n: tl.constexpr, ROUNDED"), BLOCK=256, num_warps=2, num_stages=3)
    assert (made.steps[0].args, made.defines["n"]) == (("x", "y"), 1000)


def test_only_what_the_autotuner_lists_goes_together(folder: Path) -> None:
    variant = load(folder).variants["scale"]
    assert {one.name: one.values for one in variant.tunables} == {
        "BLOCK": (256, 512), "num_warps": (2, 4), "num_stages": (3,)
    }  # fmt: skip
    assert variant.constraint is not None
    problem = Point(n=1000)
    assert variant.constraint(problem, Point(BLOCK=256, num_warps=2, num_stages=3)) is None
    assert variant.constraint(problem, Point(BLOCK=256, num_warps=4, num_stages=3)) == (
        "not among the 2 configurations of @triton.autotune"
    )


def test_its_text_is_what_is_compiled_and_no_more(folder: Path) -> None:
    def text(*changed: str) -> str:
        family = load(folder, *changed)
        return source_text(family, family.variants["scale"])

    whole = text()
    found: dict[str, Any] = {}
    exec(whole, found)
    assert found["twice"].fn(21) == 42
    assert not [word for word in ("numpy", "cuprof", "CONFIGS", "autotune", "a comment") if word in whole]
    assert text("(512, 4)", "(512, 4), (1024, 8)") == text("n=1000", "n=2000") == text("  # a comment", "") == whole
    assert text("tl.constexpr(1)", "tl.constexpr(3)") != whole
    (folder / "helpers.py").write_text(HELPERS.replace("FACTOR = 2", "FACTOR = 3"))
    assert text() != whole


def test_a_notebook_hands_it_over_by_value(folder: Path) -> None:
    family = load(folder)
    typed: dict[str, Any] = {"__name__": "__main__"}
    text = (folder / "made.py").read_text().replace("cuprof.compare(", "dict(variant=")
    exec(compile(text, str(folder / "made.py"), "exec"), typed)
    place = folder / "kept"
    place.mkdir()
    given = {"inputs": typed["inputs"], "outputs": ("y",), "reference": lambda x: 2 * x}
    again = take_snapshot(define([typed["mine"]], "", place, given, {}), folder)
    assert again.variants["scale"].tunables == family.variants["scale"].tunables
    assert again.variants["scale"].text == family.variants["scale"].text
    made = program(again.origin.load(), BLOCK=512, num_warps=4, num_stages=3)
    assert made == program(family, BLOCK=512, num_warps=4, num_stages=3)


def test_what_is_wanting_is_said(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"kernel scale needs grid="):
        program(load(folder, 'grid=lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), ', ""), BLOCK=256)
    with pytest.raises(FamilyError, match=r"made.py: scale is a Triton function, which takes no threads=; give grid="):
        load(folder, 'grid=lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)', "threads=256")
