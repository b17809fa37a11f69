"""Sources that compilers of the host turn into libraries, executables and cubins, and functions that are called."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from cuprof.backends.functions import bind, load_library
from cuprof.builds import BuildPool
from cuprof.builds.native import NativeBuild
from cuprof.core.errors import BuildError, LaunchError
from cuprof.families import Invoke
from cuprof.families.toolchain import get_compiler

SOURCE = """
struct Line { float slope; int length; double offset; };
extern "C" int straight(const float* x, float* y, Line line) {
    if (line.length < 0) return 22;
    for (int i = 0; i < line.length; i++) y[i] = line.slope * x[i] + line.offset + ADDED;
    return 0;
}
"""
LINE = np.dtype([("slope", "f4"), ("length", "i4"), ("offset", "f8")], align=True)

needs_gcc = pytest.mark.skipif(get_compiler("g++").path is None, reason="g++ is not installed")
needs_nvcc = pytest.mark.skipif(get_compiler("nvcc").path is None, reason="nvcc is not installed")


def build(text: str = SOURCE, added: int = 0, **details: object) -> NativeBuild:
    return NativeBuild(text, "k.cpp", "g++", "library", defines={"ADDED": added}, **details)  # type: ignore[arg-type]


@needs_gcc
def test_functions_of_several_builds_are_told_apart_and_take_structs_by_value(tmp_path: Path) -> None:
    cache = BuildPool(tmp_path)
    x, results = np.arange(4, dtype=np.float32), []
    for added in (0, 100):
        built, cached = cache.compile(build(added=added))
        assert not cached
        y = np.zeros_like(x)
        line = np.array((2.0, 4, 0.5), LINE)[()]
        bind(load_library(built.image, "k"), Invoke("straight", ()), [x.ctypes.data, y.ctypes.data, line])()
        results.append(y.tolist())
    assert results == [[0.5, 2.5, 4.5, 6.5], [100.5, 102.5, 104.5, 106.5]]
    assert cache.compile(build(added=100))[1] is True


@needs_gcc
def test_another_status_than_0_and_an_absent_function_are_launch_errors(tmp_path: Path) -> None:
    built, _ = BuildPool(tmp_path).compile(build())
    library = load_library(built.image, "k")
    with pytest.raises(LaunchError, match="straight returned 22"):
        bind(library, Invoke("straight", ()), [0, 0, np.array((1.0, -1, 0.0), LINE)[()]])()
    with pytest.raises(LaunchError, match="crooked"):
        bind(library, Invoke("crooked", ()), [])


@needs_gcc
def test_what_the_compiler_refuses_is_told_by_its_first_error_without_the_temporary_folder() -> None:
    with pytest.raises(BuildError, match=r"g\+\+ refused k\.cpp: k\.cpp:1:.*error") as refused:
        build("int f( { }\n").run()
    assert "/tmp" not in refused.value.log


def test_a_file_that_is_no_library_is_refused() -> None:
    with pytest.raises(LaunchError, match="load the library of k"):
        load_library(b"\x7fELF nothing", "k")


def test_libraries_and_options_decide_the_content() -> None:
    contents = [build(), build(added=1), build(options=("-lm",)), build(SOURCE + " ")]
    assert len({str(each.content()) for each in contents}) == len(contents)


@needs_nvcc
def test_nvcc_makes_cubins_and_tells_their_resources() -> None:
    text = "__global__ void k(float* y) { y[threadIdx.x] = 1; }"
    built = NativeBuild(text, "k.cu", "nvcc", "cubin", arch="sm_90").run()
    assert built.image.startswith(b"\x7fELF")
    assert built.kernels["_Z1kPf"].registers > 0


def test_types_of_c_are_those_of_numpy() -> None:
    seen = []
    library = type("Library", (), {})()
    library.take = lambda *cells: seen.extend(cells) or 0
    bind(library, Invoke("take", ()), [8, np.float32(0.5), np.uint64(2**63)])()
    assert [type(cell) for cell in seen] == [ctypes.c_void_p, ctypes.c_float, ctypes.c_ulong]
    assert [cell.value for cell in seen] == [8, 0.5, 2**63]


@pytest.mark.skipif(get_compiler("gcc").path is None, reason="gcc is not installed")
def test_a_linker_s_own_line_is_the_message_and_not_what_calls_it(tmp_path: Path) -> None:
    text = "int absent(int); int main(void) { return absent(1); }"
    with pytest.raises(BuildError, match=r"gcc refused k\.c: .*undefined reference to .absent"):
        BuildPool(tmp_path).compile(NativeBuild(text, "k.c", "gcc", "program"))
    with pytest.raises(BuildError, match=r"cannot find -lnothing"):
        BuildPool(tmp_path).compile(NativeBuild(text, "k.c", "gcc", "library", options=("-lnothing",)))
