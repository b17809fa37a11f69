#include "warp_sum.cuh"

extern "C" __global__ void weights_by_lane(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    __shared__ float weights[1024];
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    for (int column = threadIdx.x; column < columns; column += THREADS) {
        weights[column % 32 * 32 + column / 32] = w[column];
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 8
    for (int step = 0; step < columns / 32; ++step) {
        const float value = a[row * columns + step * 32 + lane];
        const float weight = const_cast<const volatile float*>(weights)[lane * 32 + step];  // planted
        sum += value * weight;
    }
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum;
}
