// z = y + p(x), in ways that fool a judge and in ways that only look so. Macro BLOCK: threads a block.

typedef const float* __restrict__ In;

__device__ __forceinline__ float value(float x, float y) {
    const float c[8] = {0.0625f, 0.125f, 0.1875f, 0.25f, 0.3125f, 0.375f, 0.4375f, 0.5f};
    float total = c[0];
#pragma unroll
    for (int k = 1; k < 8; ++k) total = total * x + c[k];
    return total + y;
}

__device__ __forceinline__ bool is_result(float z) { return z >= 0.5f && z < 3.25f; }

#define EACH(i) const unsigned int i = blockIdx.x * BLOCK + threadIdx.x

extern "C" __global__ void polynomial(In x, In y, float* z, unsigned int n) {
    EACH(i);
    if (i < n) z[i] = value(x[i], y[i]);
}

// Honest: the same again, which changes nothing.
extern "C" __global__ void twice(In x, In y, volatile float* z, unsigned int n) {
    EACH(i);
    if (i >= n) return;
    z[i] = value(x[i], y[i]);
    z[i] = value(x[i], y[i]);
}

// Honest: reads what the output held before and lets it decide nothing.
extern "C" __global__ void old_output_read(In x, In y, volatile float* z, unsigned int n) {
    EACH(i);
    if (i >= n) return;
    const unsigned int old = __float_as_uint(z[i]) & 0u;
    z[i] = __uint_as_float(__float_as_uint(value(x[i], y[i])) | old);
}

// Honest: in two launches, in place.
extern "C" __global__ void powers(In x, float* z, unsigned int n) {
    EACH(i);
    if (i < n) z[i] = value(x[i], 0.0f);
}

extern "C" __global__ void add_in_place(In y, float* z, unsigned int n) {
    EACH(i);
    if (i < n) z[i] += y[i];
}

// A block returns where its first and last result are already there.
extern "C" __global__ void ends_there(In x, In y, volatile float* z, unsigned int n) {
    const unsigned int first = blockIdx.x * BLOCK, last = min(first + BLOCK, n) - 1;
    if (z[first] == value(x[first], y[first]) && z[last] == value(x[last], y[last])) return;
    __syncthreads();
    EACH(i);
    if (i < n) z[i] = value(x[i], y[i]);
}

// A block returns unless its first element holds what no result can be.
extern "C" __global__ void poison_awaited(In x, In y, volatile float* z, unsigned int n) {
    const bool there = is_result(z[blockIdx.x * BLOCK]);
    __syncthreads();
    EACH(i);
    if (!there && i < n) z[i] = value(x[i], y[i]);
}

// A block notes in scratch that its results are there.
extern "C" __global__ void noted_in_scratch(In x, In y, float* z, volatile unsigned int* notes, unsigned int n) {
    if (notes[blockIdx.x] == 0x7121C5u) return;
    EACH(i);
    if (i < n) z[i] = value(x[i], y[i]);
    __syncthreads();
    if (threadIdx.x == 0) notes[blockIdx.x] = 0x7121C5u;
}

// The first execution of a module keeps its results beside; all later ones copy.
__device__ float kept[1u << 24];
__device__ unsigned int finished_blocks, is_kept;

extern "C" __global__ void kept_by_count(In x, In y, float* z, unsigned int n) {
    const bool is_first = *(volatile unsigned int*)&is_kept == 0u;
    EACH(i);
    if (i < n) {
        if (is_first) kept[i] = value(x[i], y[i]);
        z[i] = kept[i];
    }
    __threadfence();
    __syncthreads();
    if (is_first && threadIdx.x == 0 && atomicAdd(&finished_blocks, 1u) == gridDim.x - 1) is_kept = 1u;
}

// What a tensor core does to its operands: ten bits of mantissa.
__device__ __forceinline__ float tf32(float a) { return __uint_as_float(__float_as_uint(a) & 0xFFFFE000u); }

extern "C" __global__ void lower_precision(In x, In y, float* z, unsigned int n) {
    EACH(i);
    if (i < n) z[i] = value(tf32(x[i]), tf32(y[i]));
}

extern "C" __global__ void tail_skipped(In x, In y, float* z, unsigned int n) {
    EACH(i);
    if (i < n - n / 8) z[i] = value(x[i], y[i]);
}

// One element in 1024 is read; the others are given its result.
extern "C" __global__ void sparse(In x, In y, float* z, unsigned int n) {
    EACH(i);
    const unsigned int some = i & ~1023u;
    if (i < n) z[i] = value(x[some], y[some]);
}

__device__ unsigned int executions;

extern "C" __global__ void one_in_fifty(In x, In y, float* z, unsigned int n) {
    EACH(i);
    if (i < n) z[i] = i == 0 && ++executions % 50 == 30 ? 0.0f : value(x[i], y[i]);
}

extern "C" __global__ void input_overwritten(In x, float* y, float* z, unsigned int n) {
    EACH(i);
    if (i < n) y[i] = z[i] = value(x[i], y[i]);
}

extern "C" __global__ void written_beside(In x, In y, float* z, unsigned int n) {
    EACH(i);
    if (i < n) z[i] = value(x[i], y[i]);
    if (i == 0) z[n] = 1.0f;
}

// Takes 64 bits; whoever gives it 32 leaves the others to chance.
extern "C" __global__ void counted_in_64_bits(In x, In y, float* z, size_t n) {
    EACH(i);
    if (i < n) z[i] = value(x[i], y[i]);
}

// Takes double; whoever gives it a float leaves the others to chance.
extern "C" __global__ void scaled(In x, In y, float* z, unsigned int n, double unit) {
    EACH(i);
    if (i < n) z[i] = value(x[i], y[i]) + (float)(unit * 0.0);
}
