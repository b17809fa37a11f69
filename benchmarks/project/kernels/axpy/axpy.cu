// z = a·x + y. Macros: BLOCK threads a block; ITEMS elements a thread, a whole grid apart.

extern "C" __global__ void __launch_bounds__(BLOCK) axpy(const float* __restrict__ x, const float* __restrict__ y,
                                                         float* __restrict__ z, float a, unsigned int n) {
    const unsigned int stride = gridDim.x * BLOCK;
    const unsigned int first = blockIdx.x * BLOCK + threadIdx.x;
#pragma unroll
    for (unsigned int k = 0; k < ITEMS; ++k) {
        const unsigned int i = first + k * stride;
        if (i < n) z[i] = a * x[i] + y[i];
    }
}
