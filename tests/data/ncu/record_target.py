"""Launch small kernels inside NVTX ranges of trials, for recording Nsight Compute's reports and failures.

Needs CuPy and a CUDA device, nothing of cuprof. `python record_target.py MODE`; the modes are at the end of the file.
"""

# ruff: noqa: T201 - printing is what this program is for

import sys

import cupy

SOURCE = r"""
extern "C" __global__ void partial_sums(const float* x, float* partial, int n) {
    extern __shared__ float tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = tile[0];
}
extern "C" __global__ void strided_sum(const float* x, float* sums, int n, int stride) {
    float sum = 0.0f;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int step = 0; step < 8; ++step) sum += x[((long long)(i + step) * stride) % n];
    sums[i] = sum;
}
extern "C" __global__ void read_all(const float4* x, float* sink, int n) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        sum += v.x + v.y + v.z + v.w;
    }
    if (sum == 123.456f) sink[0] = sum;
}
extern "C" __global__ void fall(int* nowhere) { nowhere[threadIdx.x] = 1; }
extern "C" __global__ void spin(int* sink, long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - start < nanoseconds);
    sink[0] = 1;
}
"""
TWO_LAUNCHES = "2" * 32
ONE_LAUNCH = "1" * 32
THREE_LAUNCHES = "3" * 32
LIBRARY = "a" * 32
NESTED = "e" * 32
READ_16_MIB = "d" * 32
CRASH = "c" * 32
HANG = "f" * 32

if sys.argv[2:] == ["lean"]:
    # ncu saves and restores all memory that a kernel could write, the heap of device-side malloc (8 MiB) included.
    cupy.cuda.runtime.deviceSetLimit(2, 1 << 16)
kernels = cupy.RawModule(code=SOURCE)
partial_sums, strided_sum, read_all, fall, spin = map(
    kernels.get_function, ("partial_sums", "strided_sum", "read_all", "fall", "spin")
)
small = cupy.ones(1 << 16, dtype=cupy.float32)
large = cupy.ones(1 << 22, dtype=cupy.float32)  # 16 MiB
partial = cupy.zeros(1 << 16, dtype=cupy.float32)


def trial(identity, execute):
    """Execute once outside and once inside the range, as the profiled worker does."""
    execute()
    cupy.cuda.Device().synchronize()
    print("launching", identity, flush=True)
    cupy.cuda.nvtx.RangePush("cuprof-" + identity)
    execute()
    cupy.cuda.nvtx.RangePop()
    cupy.cuda.Device().synchronize()
    print("done", identity, flush=True)


def two():
    """Launch two kernels, the second on one block."""
    partial_sums((256,), (256,), (small, partial, cupy.int32(1 << 16)), shared_mem=1024)
    partial_sums((1,), (256,), (partial, partial[1024:], cupy.int32(256)), shared_mem=1024)


def one():
    """Launch one kernel with poor coalescing and a deep grid."""
    strided_sum((8, 4, 9), (128,), (small, partial, cupy.int32(1 << 16), cupy.int32(32)))


def three():
    """Launch the same kernel three times with different grids."""
    for blocks in (64, 16, 4):
        partial_sums((blocks,), (256,), (small, partial, cupy.int32(blocks * 256)), shared_mem=1024)


def library():
    """Call a library that launches what it likes."""
    cupy.sum(large)


def nested():
    """Launch inside a further range, as a library that annotates itself does."""
    cupy.cuda.nvtx.RangePush("inner")
    partial_sums((16,), (256,), (small, partial, cupy.int32(4096)), shared_mem=1024)
    cupy.cuda.nvtx.RangePop()


def read():
    """Read 16 MiB once."""
    read_all((1056,), (256,), (large, partial, cupy.int32(1 << 20)))


def stray():
    """Launch outside every range."""
    partial_sums((2,), (256,), (small, partial, cupy.int32(512)), shared_mem=1024)


def crash():
    """Write to an address that is nobody's; no warm-up, since nothing works afterwards."""
    print("launching", CRASH, flush=True)
    cupy.cuda.nvtx.RangePush("cuprof-" + CRASH)
    fall((1,), (32,), (cupy.uint64(16),))
    cupy.cuda.nvtx.RangePop()
    cupy.cuda.Device().synchronize()
    print("done", CRASH, flush=True)


def hang():
    """Spin for two minutes."""
    print("launching", HANG, flush=True)
    cupy.cuda.nvtx.RangePush("cuprof-" + HANG)
    spin((1,), (1,), (partial, cupy.int64(120_000_000_000)))
    cupy.cuda.nvtx.RangePop()
    cupy.cuda.Device().synchronize()


def all_trials():
    """Execute every well-behaved trial, in an order that is not that of their identities."""
    trial(TWO_LAUNCHES, two)
    stray()
    trial(ONE_LAUNCH, one)
    trial(LIBRARY, library)
    trial(THREE_LAUNCHES, three)
    trial(NESTED, nested)
    trial(READ_16_MIB, read)


modes = {
    "all": all_trials,
    "one": lambda: trial(ONE_LAUNCH, one),
    "read": lambda: trial(READ_16_MIB, read),
    "stray": stray,
    "crash": lambda: (trial(ONE_LAUNCH, one), crash()),
    "hang": lambda: (trial(ONE_LAUNCH, one), hang()),
    "two_then_idle": lambda: (trial(TWO_LAUNCHES, two), stray()),
}
modes[sys.argv[1]]()
