"""Headers that are compiled once for all choices of macros: when that is done, and that the code stays the same."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cuprof.builds.compilers import Compilers
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.core.errors import BuildError
from cuprof.families.toolchain import find_headers

pytestmark = pytest.mark.usefixtures("nvrtc")
CUB = """// Sums a block.
#include <cub/block/block_reduce.cuh>
#define ITEMS 2 /* a thread */

extern "C" __global__ void k(const float* x, float* y) {
    typedef cub::BlockReduce<float, BLOCK> Reduce;
    __shared__ typename Reduce::TempStorage kept;
    float sum = Reduce(kept).Sum(x[ITEMS * threadIdx.x]);
    if (threadIdx.x == 0) *y = SCALE * sum;
}
"""
HALF = """#include <cuda_fp16.h>
extern "C" __global__ void k(const __half* x, float* y) {
    y[threadIdx.x] = SCALE * __half2float(__hmul(x[0], x[BLOCK]));
}
"""


def build(text: str = CUB, **given: object) -> NvrtcBuild:
    return NvrtcBuild(text, "k.cu", "sm_90", **{"defines": {"BLOCK": 128, "SCALE": "2.0f"}, **given})  # type: ignore[arg-type]


@pytest.fixture
def compilers() -> Iterator[Compilers]:
    made = Compilers()
    yield made
    made.end()


def first_lines(text: str, **given: object) -> str | None:
    headers = build(text, **given).headers
    return headers[1] if headers else None


def test_the_first_lines_end_with_the_last_of_the_leading_includes() -> None:
    assert first_lines(CUB) == "// Sums a block.\n#include <cub/block/block_reduce.cuh>\n"
    text = "/* a\n#include <n.h>\n*/\n#include <mma.h>\n#define A(x) \\\n x\n#pragma once\n # include <a.h>\nint i;\n"
    assert first_lines(text) == text.removesuffix("int i;\n")


@pytest.mark.parametrize(
    "text",
    [
        "int i;\n#include <cub/cub.cuh>\n",
        "#if BLOCK > 128\n#include <cub/cub.cuh>\n#endif\n",
        "#ifdef BLOCK\n#endif\n#include <cub/cub.cuh>\n",
        "// #include <cub/cub.cuh>\nint i;\n",
        "#include <cub/cub.cuh>",
        "",
    ],
)
def test_where_code_or_a_condition_comes_first_macros_stay_options(text: str) -> None:
    assert first_lines(text) is None
    assert "-DBLOCK=128" in build(text)._arrange()[2]


@pytest.mark.parametrize("option", ["-I/my/headers", "--include-path=/x", "-DA=1", "-UB"])
def test_headers_of_the_users_own_may_look_at_macros(option: str) -> None:
    assert first_lines(CUB, options=(option,)) is None


def test_macros_that_headers_look_at_stay_options_and_part_the_headers() -> None:
    configured = build(defines={"BLOCK": 64, "CUB_STDERR": 1})
    assert "-DCUB_STDERR=1" in configured._arrange()[2]
    assert "-DBLOCK=64" not in configured._arrange()[2]
    assert configured.headers != build().headers
    assert build(defines={"BLOCK": 64}).headers == build().headers
    assert replace(build(), arch="sm_80").headers != build().headers


def test_lines_keep_their_numbers(compilers: Compilers) -> None:
    with pytest.raises(BuildError, match=r"k\.cu\(5\): error: .*nonsense"):
        compilers.run(build("#include <cuda_fp16.h>\n\n\n\nnonsense x;\n"))


def test_the_code_is_that_of_macros_given_as_options(compilers: Compilers) -> None:
    if len(find_headers().folders) < 3:
        pytest.skip("CUDA's headers are not installed")
    given, as_options = build(HALF), build(f"#if 1\n#endif\n{HALF}")
    assert as_options.headers == ()
    plain = compilers.run(given)
    compilers.run(build(HALF, defines={"BLOCK": 64, "SCALE": "1.0f"}))  # from here on the headers are compiled ahead
    give_up = time.monotonic() + 150
    while not compilers._origins[given.headers].is_loaded():
        assert time.monotonic() < give_up
        time.sleep(0.05)
    ahead = compilers.run(given)
    assert code_of(ahead.image) == code_of(plain.image) == code_of(compilers.run(as_options).image)
    assert ahead.kernels == plain.kernels
    assert "precompiled" not in ahead.log


def code_of(image: bytes) -> dict[str, bytes]:
    """Return the machine code of a cubin, by section."""
    table, _, _, _, _, size, count, names = struct.unpack_from("<QIHHHHHH", image, 40)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, table + number * size) for number in range(count)]
    texts = headers[names][4]
    found = {}
    for name, _, _, _, offset, length, *_ in headers:
        text = image[texts + name : image.index(b"\0", texts + name)].decode()
        if text.startswith(".text"):
            found[text] = image[offset : offset + length]
    assert found
    return found
