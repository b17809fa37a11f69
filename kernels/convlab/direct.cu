// Sliding window: one thread an output pixel, the three channels unrolled.
// FILTER_SPACE, __device__ or __constant__, says where the filter lives.

#include "window.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
direct(const float* image, float* output, int side) {
    const int outputs = side - FILTER + 1;
    const int x = blockIdx.x * BLOCK_X + threadIdx.x;
    const int y = blockIdx.y * BLOCK_Y + threadIdx.y;
    if (x >= outputs || y >= outputs) return;  // no barrier follows

    const int plane = side * side;
    const float* corner = image + y * side + x;
    float sum = 0.0f;
#pragma unroll
    for (int fy = 0; fy < FILTER; ++fy) {
#pragma unroll
        for (int fx = 0; fx < FILTER; ++fx) {
            const float* pixel = corner + fy * side + fx;
            sum += pixel[0] * taps[0][fy][fx];
            sum += pixel[plane] * taps[1][fy][fx];
            sum += pixel[2 * plane] * taps[2][fy][fx];
        }
    }
    output[y * outputs + x] = sum;
}
