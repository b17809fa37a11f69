// SM: the block's part of the image and a frame of one pixel around it are staged in shared memory; the filter is read
// from global memory. BLOCK x BLOCK threads, a tile of (BLOCK * CF + 2) x (BLOCK + 2) bytes.
//
// Each thread stages the CF pixels it computes; the first and the last thread of a row also the pixel beside it; the
// threads of the first and the last row the frame's rows, whose corners two threads of the neighbouring row take (at
// 16 threads a row they are lanes of the same warp that would be idle).
//
// With VECTOR, runs are stored into shared memory as vectors, too. For that they must begin at multiples of a vector's
// width: the frame at either end of a row of the tile is that wide, and one pixel of it is used.

#include "window.cuh"

constexpr int FRAME = VECTOR ? (CF == 2 ? 2 : 4) : 1;
constexpr int TILE_WIDTH = BLOCK * CF;
using TileRow = unsigned char[FRAME + TILE_WIDTH + FRAME];

__device__ __forceinline__ int in_image(int at, int size) { return min(max(at, 0), size - 1); }

// Stages one row of the frame from `row` of the image; `corner` threads, two of them, take the row's ends.
__device__ __forceinline__ void stage_frame_row(TileRow& tile_row, const unsigned char* row, int left, int size,
                                                bool corner) {
    const int first = corner ? FRAME - 1 + threadIdx.x * (TILE_WIDTH + 1) : FRAME + threadIdx.x * CF;
    unsigned char run[CF];
#pragma unroll
    for (int i = 0; i < CF; ++i) {
        if (i > 0 && corner) break;
        run[i] = row[in_image(left + first + i - FRAME, size)];
        if (!VECTOR) tile_row[first + i] = run[i];
    }
    if (!VECTOR) return;
    if (corner) {
        tile_row[first] = run[0];
    } else {
        store_run(tile_row, first, sizeof(TileRow), run);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK * BLOCK)
filter_sm(const unsigned char* __restrict__ image, const int* __restrict__ weights, unsigned char* __restrict__ output,
          int size) {
    __shared__ __align__(4) TileRow tile[BLOCK + 2];

    const int column = threadIdx.x;
    const int row = threadIdx.y;
    const int left = blockIdx.x * TILE_WIDTH;
    const int top = blockIdx.y * BLOCK;
    const int x = left + column * CF;
    const int y = top + row;

    const unsigned char* image_row = image + min(y, size - 1) * size;
    unsigned char staged[CF];
#pragma unroll
    for (int i = 0; i < CF; ++i) staged[i] = image_row[RAGGED ? min(x + i, size - 1) : x + i];
    store_run(tile[row + 1], FRAME + column * CF, sizeof(TileRow), staged);
    if (column == 0) tile[row + 1][FRAME - 1] = image_row[in_image(left - 1, size)];
    if (column == BLOCK - 1) tile[row + 1][FRAME + TILE_WIDTH] = image_row[in_image(left + TILE_WIDTH, size)];
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

    const int before = FRAME - 1 + column * CF;  // the pixel to the left of the run
    const Rows rows = {tile[row] + before, tile[row + 1] + before, tile[row + 2] + before};
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
