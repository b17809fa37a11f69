// im2col as published, one kernel: each thread writes the window of its own pixel as a column of a matrix (rows = 3 ×
// FILTER × FILTER, a column an output pixel), waits at a barrier, and multiplies the column with the filter as a row.

#include "window.cuh"

#define ROWS (3 * FILTER * FILTER)

extern "C" __global__ void __launch_bounds__(BLOCK)
im2col(const float* image, float* columns, float* output, int side) {
    const int outputs = side - FILTER + 1;
    const int count = outputs * outputs;
    const int column = blockIdx.x * BLOCK + threadIdx.x;
    const bool works = column < count;  // the others still meet the barrier

    if (works) {
        const float* corner = image + column / outputs * side + column % outputs;
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            const int channel = row / (FILTER * FILTER);
            const int fy = row / FILTER % FILTER;
            columns[(size_t)row * count + column] = corner[(channel * side + fy) * side + row % FILTER];
        }
    }
    __syncthreads();
    if (!works) return;

    const float* filter = &taps[0][0][0];
    float sum = 0.0f;
#pragma unroll
    for (int row = 0; row < ROWS; ++row) sum += columns[(size_t)row * count + column] * filter[row];
    output[column] = sum;
}
