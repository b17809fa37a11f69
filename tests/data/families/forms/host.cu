// Host code that launches its own kernels, as a library's does; nvcc makes a shared library of it.
#include <cuda_runtime.h>

template <int SIZE>
__global__ void doubles(const float* x, float* y, int n) {
    int i = blockIdx.x * SIZE + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}

extern "C" cudaError_t launch(const float* x, float* y, int n, cudaStream_t stream) {
    doubles<THREADS><<<(n + THREADS - 1) / THREADS, THREADS, 0, stream>>>(x, y, n);
    return cudaGetLastError();
}
