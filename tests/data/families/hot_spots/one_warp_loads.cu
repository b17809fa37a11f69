#include "warp_sum.cuh"

extern "C" __global__ void one_warp_loads(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    __shared__ float tile[8][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = blockIdx.x * 8;
    float sum = 0.0f;
    for (int column = 0; column < columns; column += 32) {
        if (warp == 0) {
            for (int row = 0; row < 8; ++row) tile[row][lane] = a[(first + row) * columns + column + lane];
        }
        __syncthreads();  // planted
        sum += tile[warp][lane] * __ldg(w + column + lane);
        __syncthreads();
    }
    sum = warp_sum(sum);
    if (lane == 0) y[first + warp] = sum;
}
