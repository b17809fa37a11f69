"""Sources that include CUDA's own headers and the C ones, compiled without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.builds import BuildPool
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.core.errors import BuildError
from cuprof.families.toolchain import STANDARD, Headers, find_headers

pytestmark = pytest.mark.usefixtures("nvrtc", "in_this_process")
DEFINES = {"K": 'extern "C" __global__ void'}

HALF = "#include <cuda_fp16.h>\nK k(__half2* x) { x[threadIdx.x] = __hmul2(x[threadIdx.x], x[0]); }"
GROUPS = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
K k(int* x) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int sum = cg::reduce(warp, x[threadIdx.x], cg::plus<int>());
    if (warp.thread_rank() == 0) x[0] = sum;
}"""
CUB = """#include <cub/block/block_reduce.cuh>
K k(const float* x, float* y) {
    typedef cub::BlockReduce<float, 128> Reduce;
    __shared__ typename Reduce::TempStorage kept;
    const float sum = Reduce(kept).Sum(x[threadIdx.x]);
    if (threadIdx.x == 0) *y = sum;
}"""
TENSOR = """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda::wmma;
K k(const half* a, const half* b, float* c) {
    fragment<matrix_a, 16, 16, 16, half, row_major> left;
    fragment<matrix_b, 16, 16, 16, half, col_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    load_matrix_sync(left, a, 16);
    load_matrix_sync(right, b, 16);
    mma_sync(sum, left, right, sum);
    store_matrix_sync(c, sum, 16, mem_row_major);
}"""
STANDARD_C = """#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
K k(std::uint32_t* a, int64_t b, std::size_t c) {
    assert(b > INT_MIN);
    printf("%d", int(b));
    a[c] = uint32_t(b) + isinf(INFINITY) + uint8_t(sqrt(M_PI)) + (FLT_MAX > 1.0f) + isnan(NAN);
}"""


@pytest.fixture
def cache(tmp_path: Path) -> BuildPool:
    return BuildPool(tmp_path)


@pytest.mark.parametrize(
    "arch", [*(pytest.param(arch, marks=pytest.mark.slow) for arch in ("sm_75", "sm_90")), "sm_100"]
)
@pytest.mark.parametrize("text", [HALF, GROUPS, CUB, TENSOR, STANDARD_C], ids=["half", "groups", "cub", "tensor", "c"])
def test_sources_may_include_cudas_own_headers(cache: BuildPool, text: str, arch: str) -> None:
    if len(find_headers().folders) < 3 and text is not STANDARD_C:
        pytest.skip("CUDA's headers are not installed")
    cubin, _ = cache.compile(NvrtcBuild(text, "k.cu", arch, DEFINES))
    assert cubin.kernels.keys() == {"k"}


def test_without_cudas_headers_the_c_ones_are_there_and_the_remedy_is_named(
    cache: BuildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuprof.builds.nvrtc.find_headers", lambda: Headers((STANDARD,)))
    assert cache.compile(NvrtcBuild(STANDARD_C, "k.cu", "sm_90", DEFINES))[0].kernels
    with pytest.raises(BuildError, match=r"CUDA's own headers were not found: pip install 'cuprof\[cuda13\]'"):
        cache.compile(NvrtcBuild(HALF, "k.cu", "sm_90", DEFINES))


def test_a_header_of_the_host_is_answered_with_the_devices(cache: BuildPool) -> None:
    with pytest.raises(BuildError, match="; in device code it is <cuda/std/limits>"):
        cache.compile(NvrtcBuild("#include <limits>", "k.cu", "sm_90", {}))


def test_other_headers_make_another_entry(cache: BuildPool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [cache.compile(NvrtcBuild(HALF, "k.cu", "sm_90", DEFINES))[1] for _ in range(2)] == [False, True]
    found = find_headers()
    monkeypatch.setattr("cuprof.builds.nvrtc.find_headers", lambda: Headers(found.folders, "other"))
    assert cache.compile(NvrtcBuild(HALF, "k.cu", "sm_90", DEFINES))[1] is False


def test_a_macro_that_would_break_a_header_follows_it(cache: BuildPool) -> None:
    if len(find_headers().folders) < 3:
        pytest.skip("CUDA's headers are not installed")
    text = '#include <mma.h>\nextern "C" __global__ void k(T* x) { x[0] = 1; }'
    assert cache.compile(NvrtcBuild(text, "k.cu", "sm_90", {"T": "float", "WIDTH": 3}))[0].kernels.keys() == {"k"}


def test_a_header_that_is_missing_names_its_package(cache: BuildPool) -> None:
    with pytest.raises(BuildError, match=r"it comes with CUDA's curand: pip install 'cuda-toolkit\[curand\]==\d+\.\*'"):
        cache.compile(NvrtcBuild("#include <curand_nowhere.h>", "k.cu", "sm_90", {}))
    with pytest.raises(BuildError, match="it comes with nvidia-cutlass: pip install nvidia-cutlass"):
        cache.compile(NvrtcBuild("#include <cutlass/nowhere.h>", "k.cu", "sm_90", {}))
