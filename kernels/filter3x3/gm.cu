// GM: the filter and the image are read from global memory; a thread computes CF adjacent pixels (window.cuh).
// A thread loads 9 weights and 9 pixels for its first result and 3 pixels for each further one.

#include "window.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK * BLOCK)
filter_gm(const unsigned char* __restrict__ image, const int* __restrict__ weights, unsigned char* __restrict__ output,
          int size) {
    const int x = (blockIdx.x * BLOCK + threadIdx.x) * CF;
    const int y = blockIdx.y * BLOCK + threadIdx.y;
    if (x >= size || y >= size) return;

    int taps[9];
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) taps[tap] = weights[tap];

    const Rows rows = rows_around(image, y, size);
    Window window;
    window.load(1, rows, column_in_image(x, -1, size));
    window.load(2, rows, x);

    unsigned char results[CF];
#pragma unroll
    for (int i = 0; i < CF; ++i) {
        window.shift_left();
        window.load(2, rows, column_in_image(x, i + 1, size));
        results[i] = window.apply(taps);
    }
    store_run(output + y * size, x, size, results);
}
