// GM with weights as published, float[3][3]: each pixel becomes a float before it is multiplied, and the sum a byte.

#include "window.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK * BLOCK)
filter_gm_float(const unsigned char* __restrict__ image, const float* __restrict__ weights,
                unsigned char* __restrict__ output, int size) {
    const int x = (blockIdx.x * BLOCK + threadIdx.x) * CF;
    const int y = blockIdx.y * BLOCK + threadIdx.y;
    if (x >= size || y >= size) return;

    float taps[9];
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
        float sum = 0.0f;
#pragma unroll
        for (int tap = 0; tap < 9; ++tap) sum += window.pixels[tap / 3][tap % 3] * taps[tap];
        results[i] = static_cast<unsigned char>(sum);
    }
    store_run(output + y * size, x, size, results);
}

// The weights over 16, as the publication passes them.
extern "C" __global__ void scale_weights(const int* __restrict__ weights, float* __restrict__ scaled) {
    scaled[threadIdx.x] = static_cast<float>(weights[threadIdx.x]) / 16.0f;
}
