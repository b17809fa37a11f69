extern "C" __global__ void strided_sums(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    __shared__ float sums[THREADS * 32];
    volatile float* own = sums + threadIdx.x * 32;
    const int first = blockIdx.x * 32;
    for (int row = 0; row < 32; ++row) own[row] = 0.0f;
    for (int column = threadIdx.x; column < columns; column += THREADS) {
        const float weight = w[column];
#pragma unroll 8
        for (int row = 0; row < 32; ++row) {
            const float value = a[(first + row) * columns + column] * weight;
            own[row] = own[row] + value;  // planted
        }
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        float sum = 0.0f;
        for (int thread = 0; thread < THREADS; ++thread) sum += sums[thread * 32 + threadIdx.x];
        y[first + threadIdx.x] = sum;
    }
}
