"""Launches against the compiled kernel and the device: an H200, with kernels that were recorded from its driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cuprof.backends.cuda.launches import (
    Resources,
    check_arguments,
    check_launch,
    read_parameter_sizes,
)
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.core.errors import ImpossibleError, LaunchError
from cuprof.families import Launch

ADDRESS = 0x7F00_0000_0000


class Driver:
    """Tell what a kernel takes, as `cuFuncGetParamInfo` does."""

    def __init__(self, sizes: Sequence[int], broken: int = 0) -> None:
        self.sizes, self.broken = sizes, broken

    def cuFuncGetParamInfo(self, function: object, index: int) -> tuple[int, int, int]:  # noqa: N802
        if self.broken:
            return self.broken, 0, 0
        return (0, 0, self.sizes[index]) if index < len(self.sizes) else (1, 0, 0)


def check(sizes: Sequence[int], *given: Any) -> None:
    check_arguments(read_parameter_sizes(Driver(sizes), object()), "scale", given)


TAKES = (8, 8, 8, 4)


def test_what_fits_passes() -> None:
    check(TAKES, ADDRESS, ADDRESS, np.uint64(5), np.float32(2))
    check(TAKES, ADDRESS, ADDRESS, np.int64(5), np.int32(2))  # sizes alone are known
    check(())


@pytest.mark.parametrize(
    ("number", "found"),
    [
        (
            np.int32(1000),
            r"argument 3: takes 8 bytes, is given np.int32\(1000\) of 4; give a number of 8 bytes, such as",
        ),
        (np.float16(1), r"argument 3: takes 8 bytes, is given np.float16\(1.0\) of 2"),
    ],
)
def test_a_number_of_another_size_is_refused_by_its_place(number: np.generic, found: str) -> None:
    with pytest.raises(LaunchError, match=f"kernel scale, {found}"):
        check(TAKES, ADDRESS, ADDRESS, number, np.float32(2))
    with pytest.raises(LaunchError, match=r"takes 4 bytes, is given a buffer's address of 8; give a number of 4 bytes"):
        check(TAKES, ADDRESS, ADDRESS, np.uint64(5), ADDRESS)
    with pytest.raises(
        LaunchError, match=r"takes 12 bytes, is given np.int32\(1\) of 4; give what the kernel declares"
    ):
        check((12,), np.int32(1))


@pytest.mark.parametrize("count", [3, 5, 0])
def test_too_few_and_too_many_are_refused(count: int) -> None:
    with pytest.raises(
        LaunchError, match=f"kernel scale takes 4 arguments, the launch gives {count}; name one in args="
    ):
        check(TAKES, *(ADDRESS,) * count)


def test_a_driver_that_cannot_tell_refuses_nothing() -> None:
    for driver in (object(), Driver(TAKES, broken=999)):
        check_arguments(read_parameter_sizes(driver, object()), "scale", (1, 2, 3))


H200 = Resources(threads=1024, registers=65536, shared_bytes=232448)


@pytest.mark.parametrize(
    ("block", "dynamic", "needs", "said"),
    [
        ((1024,), 0, Resources(1024, 64, 0), ""),
        ((256,), 200 * 1024, Resources(256, 255, 27 * 1024), ""),
        ((256,), 200 * 1024, Resources(256, 255, 28 * 1024), "shared memory a block 228 KiB > 227 KiB"),
        ((32, 32), 0, Resources(896, 65, 0), "registers a block 66,560 > 65,536"),
        ((512,), 0, Resources(256, 40, 0), "threads a block for its registers or __launch_bounds__ 512 > 256"),
        ((64, 4, 5), 0, Resources(1024, 8, 0), "threads a block 1,280 > 1,024"),
    ],
)
def test_what_a_launch_asks_is_held_against_the_device(
    block: tuple[int, ...], dynamic: int, needs: Resources, said: str
) -> None:
    launch = Launch("scale", (1,), block, (), dynamic)
    if not said:
        check_launch(launch, needs, H200)
        return
    with pytest.raises(ImpossibleError) as caught:
        check_launch(launch, needs, H200)
    assert str(caught.value) == f"{said} of kernel scale"


def test_static_shared_memory_that_the_assembler_refuses_is_impossible() -> None:
    text = (
        'extern "C" __global__ void k(float *x) { __shared__ float s[13 * 1024]; s[threadIdx.x] = x[0]; '
        "__syncthreads(); x[1] = s[threadIdx.x ^ 1]; }"
    )
    with pytest.raises(ImpossibleError) as caught:
        NvrtcBuild(text, "k.cu", "sm_90", {}).run()
    assert str(caught.value) == "static shared memory a block 52 KiB > 48 KiB of kernel k"
