// SM: the block's part of the image and a frame of one pixel around it are staged in shared memory; the filter is read
// from global memory. BLOCK x BLOCK threads, a tile of (BLOCK * CF + 2) x (BLOCK + 2) bytes.
//
// Each thread stages the CF pixels it computes; the first and the last thread of a row also the pixel beside it; the
// threads of the first and the last row the frame's rows, whose corners two threads of the neighbouring row take (at
// 16 threads a row they are lanes of the same warp that would be idle).

#include "window.cuh"

constexpr int TILE_WIDTH = BLOCK * CF;
using TileRow = unsigned char[TILE_WIDTH + 2];

__device__ __forceinline__ int in_image(int at, int size) { return min(max(at, 0), size - 1); }

// Stages one row of the frame from `row` of the image; `corner` threads, two of them, take the row's ends.
__device__ __forceinline__ void stage_frame_row(TileRow& tile_row, const unsigned char* row, int left, int size,
                                                bool corner) {
#pragma unroll
    for (int i = 0; i < CF; ++i) {
        if (i > 0 && corner) break;
        const int at = corner ? threadIdx.x * (TILE_WIDTH + 1) : threadIdx.x * CF + i + 1;
        tile_row[at] = row[in_image(left + at - 1, size)];
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK * BLOCK)
filter_sm(const unsigned char* __restrict__ image, const int* __restrict__ weights, unsigned char* __restrict__ output,
          int size) {
    __shared__ TileRow tile[BLOCK + 2];

    const int column = threadIdx.x;
    const int row = threadIdx.y;
    const int left = blockIdx.x * TILE_WIDTH;
    const int top = blockIdx.y * BLOCK;
    const int x = left + column * CF;
    const int y = top + row;

    const unsigned char* image_row = image + min(y, size - 1) * size;
#pragma unroll
    for (int i = 0; i < CF; ++i) {
        tile[row + 1][column * CF + i + 1] = image_row[RAGGED ? min(x + i, size - 1) : x + i];
    }
    if (column == 0) tile[row + 1][0] = image_row[in_image(left - 1, size)];
    if (column == BLOCK - 1) tile[row + 1][TILE_WIDTH + 1] = image_row[in_image(left + TILE_WIDTH, size)];
    if (row == 0 || (row == 1 && column < 2)) {
        stage_frame_row(tile[0], image + max(top - 1, 0) * size, left, size, row == 1);
    }
    if (row == BLOCK - 1 || (row == BLOCK - 2 && column < 2)) {
        stage_frame_row(tile[BLOCK + 1], image + in_image(top + BLOCK, size) * size, left, size, row == BLOCK - 2);
    }
    __syncthreads();
    if (x >= size || y >= size) return;

    int taps[9];
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) taps[tap] = weights[tap];

    const Rows rows = {tile[row] + column * CF, tile[row + 1] + column * CF, tile[row + 2] + column * CF};
    Window window;
    window.load(1, rows, 0);
    window.load(2, rows, 1);

    unsigned char results[CF];
#pragma unroll
    for (int i = 0; i < CF; ++i) {
        window.shift_left();
        window.load(2, rows, i + 2);
        results[i] = window.apply(taps);
    }
    store_run(output + y * size, x, size, results);
}
