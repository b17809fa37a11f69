// Sliding window over a tile in shared memory: the block loads its part of the three planes, with the rim that the
// window reaches into, once.

#include "window.cuh"

#define TILE_X (BLOCK_X + FILTER - 1)
#define TILE_Y (BLOCK_Y + FILTER - 1)

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
direct_shared(const float* image, float* output, int side) {
    __shared__ float tile[3][TILE_Y][TILE_X];

    const int left = blockIdx.x * BLOCK_X;
    const int top = blockIdx.y * BLOCK_Y;
    const int plane = side * side;
    for (int i = threadIdx.y * BLOCK_X + threadIdx.x; i < TILE_X * TILE_Y; i += BLOCK_X * BLOCK_Y) {
        const int x = i % TILE_X;
        const int y = i / TILE_X;
        if (left + x < side && top + y < side) {  // beyond the image lies only what no output needs
            const float* pixel = image + (top + y) * side + left + x;
            tile[0][y][x] = pixel[0];
            tile[1][y][x] = pixel[plane];
            tile[2][y][x] = pixel[2 * plane];
        }
    }
    __syncthreads();  // every thread of the block, those outside the output too

    const int outputs = side - FILTER + 1;
    const int x = left + threadIdx.x;
    const int y = top + threadIdx.y;
    if (x >= outputs || y >= outputs) return;
    float sum = 0.0f;
#pragma unroll
    for (int fy = 0; fy < FILTER; ++fy) {
#pragma unroll
        for (int fx = 0; fx < FILTER; ++fx) {
            sum += tile[0][threadIdx.y + fy][threadIdx.x + fx] * taps[0][fy][fx];
            sum += tile[1][threadIdx.y + fy][threadIdx.x + fx] * taps[1][fy][fx];
            sum += tile[2][threadIdx.y + fy][threadIdx.x + fx] * taps[2][fy][fx];
        }
    }
    output[y * outputs + x] = sum;
}
