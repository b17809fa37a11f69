// FAULT is 0, or the place of a name in FAULTS of family.py, counted from 1.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

struct Point {
    float value;
    int index;
};

__device__ unsigned int mixed(unsigned int h)
{
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    return h ^ (h >> 16);
}

extern "C" __global__ void compute(
    const float *x, float *work, const int *starts, const int *columns, const float *values, float *sums, float *loose,
    int *exact, float *inner, int *kept_at, float *kept, int *count, float *product, __nv_bfloat16 *brain,
    __nv_fp8_e4m3 *eighth, float2 *rotated, Point *points, float *drawn, float *root, float *parts, int n)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    const float own = work[i];
    work[i] = __int_as_float(0x7fffffff);
    sums[i] += FAULT == 1 ? 2 * own : own;
    loose[i] = 100 * own + 1;
    exact[FAULT == 3 ? n - 1 - i : i] = (int)(256 * own) + (FAULT == 2);
    if (i >= (FAULT == 4 ? 2 : 1) && i < n - 1) inner[i] = x[i - 1] + x[i + 1];
    if (own > 0) {
        const int place = atomicAdd(count, 1);
        kept_at[place] = FAULT == 7 && place == 0 ? i + 1 : i;
        kept[place] = FAULT == 6 && place == 0 ? own + 1 : own;
    }
    if (i < n / 16) {
        float sum = 0;
        for (int k = starts[i]; k < starts[i + 1] - (FAULT == 8 && i == 5); ++k) sum += values[k] * x[columns[k]];
        product[i] = sum;
    }
    brain[i] = __float2bfloat16(own);
    eighth[i] = __nv_fp8_e4m3(own);
    if (FAULT == 9 && i == 7) reinterpret_cast<unsigned short *>(brain)[i] += 2;
    if (FAULT == 10 && i == n / 2) reinterpret_cast<unsigned char *>(eighth)[i] = 0x7F;
    rotated[i] = make_float2(0.6f * own, FAULT == 11 ? -0.8f * own : 0.8f * own);
    points[i] = Point{2 * own, i + (FAULT == 12 && i == 3)};
    const float random = (mixed(mixed(i + 1) ^ __float_as_uint(x[0]) ^ (unsigned int)clock64()) >> 8) / 16777216.0f;
    drawn[i] = FAULT == 13 ? random * random : random;
    root[i] = fabsf(own) + 1;

    __shared__ float part[BLOCK];
    part[threadIdx.x] = FAULT == 15 && blockIdx.x == 0 ? 0.0f : fabsf(own);
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = part[0];
}

// state[0] says that all have settled, state[1] that one has not in this round.
extern "C" __global__ void refine(const float *x, float *root, int *state)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    const float before = root[i], next = 0.5f * (before + (fabsf(x[i]) + 1) / before);
    root[i] = next;
    if (fabsf(next - before) > 1e-6f) state[1] = 1;
}

extern "C" __global__ void settle(int *state, int *rounds, int *count)
{
    if (FAULT == 5 && *rounds == 0) ++*count;
    state[0] = !state[1];
    state[1] = 0;
    ++*rounds;
}
