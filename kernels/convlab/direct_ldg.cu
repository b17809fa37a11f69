// Sliding window with the image, and a filter in global memory, read through the read-only data cache.

#include "window.cuh"

#if FILTER_IS_GLOBAL
#define TAP(channel, fy, fx) __ldg(&taps[channel][fy][fx])
#else
#define TAP(channel, fy, fx) taps[channel][fy][fx]
#endif

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
direct_ldg(const float* image, float* output, int side) {
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
            sum += __ldg(pixel) * TAP(0, fy, fx);
            sum += __ldg(pixel + plane) * TAP(1, fy, fx);
            sum += __ldg(pixel + 2 * plane) * TAP(2, fy, fx);
        }
    }
    output[y * outputs + x] = sum;
}
