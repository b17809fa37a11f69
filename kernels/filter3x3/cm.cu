// CM: as GM, with the filter in constant memory, whose values are operands of the arithmetic: no load at all.

#include "window.cuh"

extern "C" {
__constant__ int filter_weights[9];
}

extern "C" __global__ void __launch_bounds__(BLOCK * BLOCK)
filter_cm(const unsigned char* __restrict__ image, unsigned char* __restrict__ output, int size) {
    const int x = (blockIdx.x * BLOCK + threadIdx.x) * CF;
    const int y = blockIdx.y * BLOCK + threadIdx.y;
    if (x >= size || y >= size) return;

    const Rows rows = rows_around(image, y, size);
    Window window;
    window.load(1, rows, column_in_image(x, -1, size));
    window.load(2, rows, x);

    unsigned char results[CF];
#pragma unroll
    for (int i = 0; i < CF; ++i) {
        window.shift_left();
        window.load(2, rows, column_in_image(x, i + 1, size));
        results[i] = window.apply(filter_weights);
    }
    store_run(output + y * size, x, size, results);
}
