extern "C" __global__ void one_adds_up(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    __shared__ float products[THREADS];
    for (int each = 0; each < 8; ++each) {
        const int row = blockIdx.x * 8 + each;
        float sum = 0.0f;
        for (int column = threadIdx.x; column < columns; column += THREADS) {
            products[threadIdx.x] = a[row * columns + column] * w[column];
            __syncthreads();
            if (threadIdx.x == 0) {
                for (int other = 0; other < THREADS; ++other) sum += products[other];
            }
            __syncthreads();  // planted
        }
        if (threadIdx.x == 0) y[row] = sum;
    }
}
