// Every window laid out as a column of a matrix (rows = 3 × FILTER × FILTER, a column an output pixel), then the filter
// as a row times that matrix.

#include "window.cuh"

#define ROWS (3 * FILTER * FILTER)

// A thread an element; blockIdx.y is the matrix row: channel, then window row, then window column.
extern "C" __global__ void __launch_bounds__(BLOCK)
im2col(const float* image, float* columns, int side) {
    const int outputs = side - FILTER + 1;
    const int count = outputs * outputs;
    const int column = blockIdx.x * BLOCK + threadIdx.x;
    if (column >= count) return;

    const int row = blockIdx.y;
    const int channel = row / (FILTER * FILTER);
    const int y = column / outputs + row / FILTER % FILTER;
    const int x = column % outputs + row % FILTER;
    columns[(size_t)row * count + column] = image[(channel * side + y) * side + x];
}

// A thread a column.
extern "C" __global__ void __launch_bounds__(BLOCK)
multiply(const float* columns, float* output, int count) {
    const int column = blockIdx.x * BLOCK + threadIdx.x;
    if (column >= count) return;

    const float* filter = &taps[0][0][0];
    float sum = 0.0f;
#pragma unroll
    for (int row = 0; row < ROWS; ++row) sum += columns[(size_t)row * count + column] * filter[row];
    output[column] = sum;
}
