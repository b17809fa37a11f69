#include "scale.cuh"

namespace forms {

// Declared as people declare kernels for nvcc: no extern "C".
__global__ void plain(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}

}  // namespace forms

struct Line {
    float slope;
    int length;
    double offset;
};

// A struct by value.
__global__ void straight(const float* x, float* y, Line line) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < line.length) y[i] = line.slope * x[i] + float(line.offset);
}
