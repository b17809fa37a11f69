#include "warp_sum.cuh"

extern "C" __global__ void blocked_columns(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    const int share = columns / 32;
    float sum = 0.0f;
    for (int column = lane * share; column < (lane + 1) * share; ++column) {
        sum += a[row * columns + column] * w[column];  // planted
    }
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum;
}
