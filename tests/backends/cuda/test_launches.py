"""Launches against the compiled kernel and the device: an H200, with kernels that were recorded from its driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cuprof.backends.cuda import driver
from cuprof.backends.cuda.driver import Resources, check_arguments, check_launch
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


TAKES = [8, 8, 8, 4]


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "load_driver", lambda: Driver(TAKES))


@pytest.mark.usefixtures("takes")
def test_what_fits_passes() -> None:
    check_arguments(None, "scale", (ADDRESS, ADDRESS, np.uint64(5), np.float32(2)))
    check_arguments(None, "scale", (ADDRESS, ADDRESS, np.int64(5), np.int32(2)))  # sizes alone are known


@pytest.mark.usefixtures("takes")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((ADDRESS, ADDRESS, np.int32(5), np.float32(2)), "is given 4 of [8, 8, 4, 4]"),
        ((ADDRESS, ADDRESS, np.uint64(5), ADDRESS), "is given 4 of [8, 8, 8, 8]"),
        ((ADDRESS,) * 3, "is given 3 of [8, 8, 8]"),
        ((), "is given 0 of []"),
    ],
)
def test_arguments_of_other_sizes_are_refused(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(LaunchError) as caught:
        check_arguments(None, "scale", given)
    assert f"kernel scale takes 4 arguments of [8, 8, 8, 4] bytes, and {said}; give args=" in str(caught.value)


@pytest.mark.parametrize("silent", [object(), Driver(TAKES, broken=999)])
def test_a_driver_that_cannot_tell_refuses_nothing(monkeypatch: pytest.MonkeyPatch, silent: object) -> None:
    monkeypatch.setattr(driver, "load_driver", lambda: silent)
    check_arguments(None, "scale", (1, 2, 3))


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
