#include "warp_sum.cuh"

extern "C" __global__ void warps_in_turn(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    __shared__ float total;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int each = 0; each < 8; ++each) {
        const int row = blockIdx.x * 8 + each;
        float sum = 0.0f;
        for (int column = threadIdx.x; column < columns; column += THREADS) sum += a[row * columns + column] * w[column];
        if (threadIdx.x == 0) total = 0.0f;
        for (int turn = 0; turn < THREADS / 32; ++turn) {
            __syncthreads();  // planted
            if (warp == turn) {
                const float own = warp_sum(sum);
                if (lane == 0) total += own;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) y[row] = total;
    }
}
