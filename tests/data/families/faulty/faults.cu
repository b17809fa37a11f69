// y = 2x, in ways that fail. Every kernel takes (x, y, n) and has one thread an element.

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void sound(const float* x, float* y, int n) {
    const int i = INDEX;
    if (i < n) y[i] = 2 * x[i];
}

extern "C" __global__ void illegal_address(const float* x, float* y, int n) {
    y[(1LL << 44) + INDEX] = 2 * x[0];
}

extern "C" __global__ void misaligned(const float* x, float* y, int n) {
    *reinterpret_cast<volatile double*>(reinterpret_cast<char*>(y) + 4) = x[0];
}

extern "C" __global__ void trap(const float* x, float* y, int n) { asm volatile("trap;"); }

__device__ __noinline__ float descend(const float* x, int depth) {
    volatile float room[128];
    for (int i = 0; i < 128; ++i) room[i] = x[i & 1] + depth;
    return depth ? descend(x, depth - 1) + room[depth & 127] : room[0];
}

extern "C" __global__ void stack_overflow(const float* x, float* y, int n, int depth) {
    y[INDEX] = descend(x, depth);
}

extern "C" __global__ void endless(const float* x, float* y, int n) {
    volatile float* ready = y;
    while (ready[0] != 2.5f) asm volatile("nanosleep.u32 1000;");
}

extern "C" __global__ void __launch_bounds__(32) few_threads(const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = 2 * x[i];
}

extern "C" __global__ void leaves_nan(const float* x, float* y, int n) {
    const int i = INDEX;
    if (i < n) y[i] = i == n / 2 ? __int_as_float(0x7fc00000) : 2 * x[i];
}

extern "C" __global__ void shifted(const float* x, float* y, int n) {
    const int i = INDEX;
    if (i < n) y[i + 1] = 2 * x[i + 1 < n ? i + 1 : i];
}

extern "C" __global__ void unbounded(const float* x, float* y, int n) {
    const int i = INDEX;
    y[i] = 2 * x[i < n ? i : 0];
}

__device__ unsigned int launches;

// One block, so that every thread has read the count before it grows.
extern "C" __global__ void right_at_first(const float* x, float* y, int n) {
    const int factor = launches ? 3 : 2;
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = factor * x[i];
    __syncthreads();
    if (threadIdx.x == 0) ++launches;
}
