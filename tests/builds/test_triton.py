"""Triton kernels: what decides a build, and, where Triton is installed, what its processes answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cuprof.builds import Built
from cuprof.builds.compilers import Compilers
from cuprof.builds.triton import TritonBuild, explain
from cuprof.core.errors import BuildError, FamilyError
from cuprof.core.point import Point
from cuprof.families import Array, Launch, Texture
from cuprof.families.sources import read_variant_source
from cuprof.families.toolchain import is_installed
from cuprof.families.tunables import (
    _ask,
    explain_unlisted,
    list_configurations,
    list_tunables,
    read_configurations,
)

FILE = Path(__file__).parents[1] / "data" / "families" / "forms" / "scale_triton.py"
BUFFERS = {"x": Array((1000,), "float32"), "y": Array((1000,), "float32"), "h": Array((8,), "float16")}
CONSTANTS = {"BLOCK": 256, "num_warps": 4}
LISTED = [
    {"BLOCK": 64, "num_warps": 2, "num_ctas": 1},
    {"BLOCK": 64, "num_warps": 4, "num_ctas": 1},
    {"BLOCK": 128, "num_warps": 4, "num_ctas": 1},
]
needs_triton = pytest.mark.skipif(not is_installed("triton"), reason="Triton is not installed")


def build(*args: object, **constants: object) -> TritonBuild:
    launch = Launch("scale", (4,), args=args or ("x", "y", 1000))  # type: ignore[arg-type]
    return TritonBuild.of(FILE.read_text(), launch, BUFFERS, {**CONSTANTS, **constants}, "sm_90")


def test_arguments_are_told_apart_as_triton_does() -> None:
    found = build("x", "h", 1, 32, 33, 0.5, np.int64(48), np.uint8(1), True)
    assert found.arguments == (
        ("*fp32", True, None), ("*fp16", True, None), ("", False, 1), ("i32", True, 32), ("i32", False, 33),
        ("fp32", False, 0.5), ("i64", True, 48), ("", False, 1), ("i1", False, True),
    )  # fmt: skip


@pytest.mark.parametrize("argument", [Texture("x"), np.complex64(1)])
def test_what_triton_does_not_take_is_refused(argument: object) -> None:
    with pytest.raises(BuildError, match="Triton"):
        build("x", argument)


def test_constants_are_plain_values() -> None:
    assert build(BLOCK=np.int64(64)).content() == build(BLOCK=64).content()
    with pytest.raises(BuildError, match=r"BLOCK is \[64\]; what"):
        build(BLOCK=[64])


def test_everything_that_is_compiled_decides_the_content() -> None:
    others = [
        build("x", "y", 1008), build("x", "h", 1000), build(BLOCK=512), build(num_stages=3),
        replace(build(), text=FILE.read_text() + " "), replace(build(), arch="sm_80"), replace(build(), name="other"),
    ]  # fmt: skip
    assert len({str(each.content()) for each in (build(), *others)}) == 1 + len(others)
    assert build("x", "y", 1003).content() != build().content()  # heuristics may ask for the value


def test_a_list_of_configurations_is_axes_and_a_rule() -> None:
    assert list_tunables(LISTED) == {"BLOCK": (64, 128), "num_warps": (2, 4)}
    explain = partial(explain_unlisted, LISTED, ())
    assert explain(Point(), Point(BLOCK=128, num_warps=4)) is None
    assert explain(Point(), Point(num_warps=4, BLOCK=128)) is None
    said = explain(Point(), Point(BLOCK=128, num_warps=2))
    assert said == "not among the 3 configurations of @triton.autotune"


def test_clusters_that_differ_are_an_axis() -> None:
    assert list_tunables([*LISTED, {**LISTED[0], "num_ctas": 2}])["num_ctas"] == (1, 2)


@needs_triton
def test_configurations_are_read_in_another_process_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = read_configurations(FILE, "scale")
    assert [(each["BLOCK"], each["num_warps"]) for each in found] == [(256, 2), (256, 4), (1024, 2), (1024, 4)]
    monkeypatch.setattr("cuprof.families.tunables._ask", lambda file, kernel: pytest.fail("asked again"))
    assert read_configurations(FILE, "scale") == found


@needs_triton
@pytest.mark.parametrize(
    "line",
    [
        "print('configurations: []'); print('more', end='')",
        "import os; os.write(1, bytes([255, 10]))",
    ],
)
def test_what_a_file_prints_hides_no_configurations(tmp_path: Path, line: str) -> None:
    (tmp_path / "kernels.py").write_text(f"{line}\n{FILE.read_text()}")
    assert len(_ask(tmp_path / "kernels.py", "scale")) == 4


@needs_triton
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import os; os._exit(3)", "exit code 3$"),
        ("input()", "EOFError: [^'\"]*$"),
        ("raise SystemExit('no')", "read: no$"),
    ],
)
def test_why_configurations_cannot_be_read_is_one_line(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "kernels.py").write_text(f"{line}\n{FILE.read_text()}")
    with pytest.raises(FamilyError, match=said):
        _ask(tmp_path / "kernels.py", "scale")


@pytest.mark.parametrize(
    ("hook", "value", "said"),
    [(print, 64, "pre_hook, which cuprof does not run"), (None, [64], r"has BLOCK=\[64\]; give a number")],
)
def test_a_configuration_that_would_mean_something_else_is_refused(hook: object, value: object, said: str) -> None:
    config = SimpleNamespace(pre_hook=hook, all_kwargs=lambda: {"BLOCK": value})
    with pytest.raises(FamilyError, match=said):
        list_configurations([SimpleNamespace(configs=[config])])


@needs_triton
@pytest.mark.parametrize(("kernel", "said"), [("scales", "there are scale"), ("tl", "there are scale")])
def test_a_kernel_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, said: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FamilyError, match=said):
        read_configurations(FILE, kernel)


@pytest.fixture
def run() -> Iterator[Callable[[TritonBuild], Built]]:
    """Return a function that compiles as a sweep does, in processes of their own."""
    compilers = Compilers()
    yield compilers.run
    compilers.end()


@needs_triton
def test_builds_are_answered_and_a_failing_one_costs_itself_alone(run: Callable[[TritonBuild], Built]) -> None:
    built = run(build())
    assert built.image.startswith(b"\x7fELF")
    assert built.launch["threads"] == 128
    assert built.launch["kept"] == 0b111
    for wrong, said in (
        (build(BLOCK=255), "power of 2"),
        (build(num_wraps=4), "num_wraps"),
        (build("x"), "none for y"),
    ):
        with pytest.raises(BuildError, match=f"Triton refused scale: .*{said}"):
            run(wrong)
    assert run(build("x", "y", 1)).launch["kept"] == 0b011
    assert run(build()) == built


@needs_triton
def test_a_file_that_ends_its_process_costs_itself_alone(run: Callable[[TritonBuild], Built]) -> None:
    text = FILE.read_text().replace("import triton\n", "import os\nimport triton\nos._exit(3)\n", 1)
    with pytest.raises(BuildError, match=r"the compiler of scale ended early \(exit code 3\)"):
        run(replace(build(), text=text))
    assert run(build()).symbols == {"scale": "scale"}


@needs_triton
def test_files_of_one_name_do_not_meet(run: Callable[[TritonBuild], Built], tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "beside.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "kernels.py").write_text("from .beside import NAME\nraise RuntimeError(NAME)\n")
        text = read_variant_source(tmp_path / name / "kernels.py", tmp_path / name)
        with pytest.raises(BuildError, match=f"RuntimeError: {name}"):
            run(replace(build(), text=text))


@needs_triton
def test_what_imports_torch_costs_no_other_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Callable[[TritonBuild], Built]
) -> None:
    (tmp_path / "torch.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(BuildError):
        run(replace(build(), text=f"import torch\n{FILE.read_text()}"))
    assert run(build()).image


@needs_triton
def test_a_triton_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton.compiler.ASTSource", lambda fn, signature, constants: None)
    with pytest.raises(BuildError, match=r"too old to compile ahead; pip install 'triton>=3\.3'"):
        build().run()


CARET = "at 1:4:\ndef scale(x):\n    ^"


def test_what_triton_refuses_a_kernel_for_is_found_in_what_it_shows() -> None:
    assert explain(ValueError(f"{CARET}\nx is not defined")) == "ValueError: x is not defined"
    called = RuntimeError(CARET)
    called.__cause__ = NameError(f"{CARET}\ny is not defined")
    assert explain(called) == "NameError: y is not defined"
    assembler = (
        "PTXAS error: Internal\nptxas t.ptx, line 3; error   : Not a name\nptxas fatal : So\n\nRepro command: ptxas"
    )
    assert explain(RuntimeError(assembler)) == "RuntimeError: Not a name"
    said = "main_.py:4:5: error: failed to legalize operation 'tt.return'\nmodule {"
    assert explain(RuntimeError("PassManager::run failed"), said).endswith("failed to legalize operation 'tt.return'")
    assert explain(SystemExit()) == "SystemExit: SystemExit"
    assert explain(TypeError("<function f at 0x7f0123>")) == "TypeError: <function f>"


HEURISTIC = """
import triton
import triton.language as tl

@triton.heuristics({"num_warps": lambda its: its["n"] // 125, "EVEN": lambda its: its["n"] % its["BLOCK"] == 0})
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), EVEN)
"""


@needs_triton
def test_heuristics_give_constants_and_options_and_say_when_they_raise(run: Callable[[TritonBuild], Built]) -> None:
    heuristic = replace(build(), text=HEURISTIC, constants=(("BLOCK", 256),))
    assert run(heuristic).launch["threads"] == 8 * 32
    wrong = replace(heuristic, text=HEURISTIC.replace('its["BLOCK"]', 'its["x"].shape'))
    with pytest.raises(BuildError, match=r"heuristics of EVEN raised AttributeError.* nothing of a buffer"):
        run(wrong)


@needs_triton
def test_what_a_file_prints_is_no_answer(run: Callable[[TritonBuild], Built]) -> None:
    text = FILE.read_text().replace("import triton\n", "print('{}', flush=True)\nimport triton\n", 1)
    assert run(replace(build(), text=text)).symbols == {"scale": "scale"}
