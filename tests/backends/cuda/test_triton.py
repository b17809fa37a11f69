"""Triton kernels: what decides a build, and, where Triton is installed, what its processes answer."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cuprof.backends.cuda.triton import TritonBuild, _Compiler, _Compilers
from cuprof.errors import BuildError, FamilyError
from cuprof.family import Array, Launch, Texture
from cuprof.family.configurations import explain_unlisted, list_tunables, read_configurations
from cuprof.family.requirements import is_installed
from cuprof.point import Point

FILE = Path(__file__).parents[2] / "families" / "forms" / "scale_triton.py"
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
        ("*fp32", True), ("*fp16", True), ("", False), ("i32", True), ("i32", False), ("fp32", False), ("i64", True),
        ("", False), ("i1", False),
    )  # fmt: skip
    assert found.values == (None, None, 1, 32, 33, 0.5, 48, 1, True)


@pytest.mark.parametrize("argument", [Texture("x"), np.complex64(1)])
def test_what_triton_does_not_take_is_refused(argument: object) -> None:
    with pytest.raises(BuildError, match="Triton"):
        build("x", argument)


def test_everything_that_is_compiled_decides_the_content() -> None:
    others = [
        build("x", "y", 1008), build("x", "h", 1000), build(BLOCK=512), build(num_stages=3),
        replace(build(), text=FILE.read_text() + " "), replace(build(), arch="sm_80"), replace(build(), kernel="other"),
    ]  # fmt: skip
    assert len({str(each.content()) for each in (build(), *others)}) == 1 + len(others)
    assert build("x", "y", 1003).content() != build().content()  # heuristics may ask for the value


def test_a_list_of_configurations_is_axes_and_a_rule() -> None:
    assert list_tunables(LISTED) == {"BLOCK": (64, 128), "num_warps": (2, 4)}
    assert explain_unlisted(LISTED, Point(BLOCK=128, num_warps=4)) is None
    said = explain_unlisted(LISTED, Point(BLOCK=128, num_warps=2))
    assert said == "not among the 3 configurations of @triton.autotune"


def test_clusters_that_differ_are_an_axis() -> None:
    assert list_tunables([*LISTED, {**LISTED[0], "num_ctas": 2}])["num_ctas"] == (1, 2)


@needs_triton
def test_configurations_are_read_in_another_process_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = read_configurations(FILE, "scale")
    assert [(each["BLOCK"], each["num_warps"]) for each in found] == [(256, 2), (256, 4), (1024, 2), (1024, 4)]
    monkeypatch.setattr("cuprof.family.configurations._ask", lambda file, kernel: pytest.fail("asked again"))
    assert read_configurations(FILE, "scale") == found


@needs_triton
@pytest.mark.parametrize(("kernel", "said"), [("scales", "there are scale"), ("tl", "there are scale")])
def test_a_kernel_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, said: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FamilyError, match=said):
        read_configurations(FILE, kernel)


@needs_triton
def test_builds_are_answered_and_a_failing_one_costs_itself_alone() -> None:
    built = build().run()
    assert built.image.startswith(b"\x7fELF")
    assert built.launch["threads"] == 128
    assert built.launch["kept"] == 0b111
    for wrong, said in (
        (build(BLOCK=255), "power of 2"),
        (build(num_wraps=4), "num_wraps"),
        (build("x"), "none for y"),
    ):
        with pytest.raises(BuildError, match=said):
            wrong.run()
    assert build("x", "y", 1).run().launch["kept"] == 0b011
    assert build().run() == built


@needs_triton
def test_a_compiler_that_ends_is_replaced() -> None:
    text = FILE.read_text().replace("import triton\n", "import os\nimport triton\nos._exit(3)\n", 1)
    with pytest.raises(BuildError, match="ended while it compiled scale"):
        replace(build(), text=text).run()
    assert build().run().symbols == {"scale": "scale"}


@needs_triton
def test_compilers_are_forked_by_one_process_and_by_a_new_one_where_it_has_ended() -> None:
    compilers = _Compilers()
    try:
        first, second = compilers.take(""), compilers.take("")
        assert tell_parent(first) == tell_parent(second) == pid_of(compilers)
        compilers.give_back(first)
        assert compilers.take("") is first
        os.kill(pid_of(compilers), signal.SIGKILL)
        os.waitid(os.P_PID, pid_of(compilers), os.WEXITED | os.WNOWAIT)
        third = compilers.take("")
        assert tell_parent(third) == pid_of(compilers)
        assert [each.end() for each in (first, second, third)] == [""] * 3
    finally:
        compilers.end()


@needs_triton
def test_what_a_file_prints_is_no_answer() -> None:
    text = FILE.read_text().replace("import triton\n", "print('{}', flush=True)\nimport triton\n", 1)
    assert replace(build(), text=text).run().symbols == {"scale": "scale"}


def tell_parent(compiler: _Compiler) -> int:
    """Return whose child a compiler is."""
    answer = compiler.ask(["import os\nraise RuntimeError(os.getppid())", "", [], [], [], ""])
    return int(answer["error"].partition(": ")[2])


def pid_of(compilers: _Compilers) -> int:
    assert compilers._origin is not None
    return compilers._origin._process.pid
