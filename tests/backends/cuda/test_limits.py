"""What an H200 has, and what kernels take that were recorded from its driver."""

import pytest

from cuprof.backends.cuda.limits import Limits, Needs, check_launch
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.core.errors import ImpossibleError
from cuprof.families import Launch

H200 = Limits(threads=1024, registers=65536, shared_bytes=232448)


@pytest.mark.parametrize(
    ("block", "dynamic", "needs", "said"),
    [
        ((1024,), 0, Needs(64, 0, 1024), ""),
        ((256,), 200 * 1024, Needs(255, 27 * 1024, 256), ""),
        ((256,), 200 * 1024, Needs(255, 28 * 1024, 256), "shared memory a block 228 KiB > 227 KiB"),
        ((32, 32), 0, Needs(65, 0, 896), "registers a block 66,560 > 65,536"),
        ((512,), 0, Needs(40, 0, 256), "threads a block for its registers or __launch_bounds__ 512 > 256"),
        ((64, 4, 5), 0, Needs(8, 0, 1024), "threads a block 1,280 > 1,024"),
    ],
)
def test_what_a_launch_asks_is_held_against_the_device(block, dynamic, needs, said):
    launch = Launch("scale", (1,), block, (), dynamic)
    if not said:
        check_launch(launch, needs, H200)
        return
    with pytest.raises(ImpossibleError) as caught:
        check_launch(launch, needs, H200)
    assert str(caught.value) == f"{said} of kernel scale"


def test_static_shared_memory_that_the_assembler_refuses_is_impossible():
    text = (
        'extern "C" __global__ void k(float *x) { __shared__ float s[13 * 1024]; s[threadIdx.x] = x[0]; '
        "__syncthreads(); x[1] = s[threadIdx.x ^ 1]; }"
    )
    with pytest.raises(ImpossibleError) as caught:
        NvrtcBuild(text, "k.cu", "sm_90", {}).run()
    assert str(caught.value) == "static shared memory a block 52 KiB > 48 KiB of kernel k"
