extern "C" __global__ void swapped_indices(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    __shared__ float partial[THREADS / 32][32];
    __shared__ float weights[1024];
    const int x = threadIdx.x % 32, group = threadIdx.x / 32;
    const int row = blockIdx.x * 32 + x;
    for (int column = threadIdx.x; column < columns; column += THREADS) weights[column] = w[column];
    __syncthreads();
    float sum = 0.0f;
    for (int column = group; column < columns; column += THREADS / 32) {
        const float value = a[row * columns + column];  // planted
        sum += value * weights[column];
    }
    partial[group][x] = sum;
    __syncthreads();
    if (group == 0) {
        for (int other = 1; other < THREADS / 32; ++other) sum += partial[other][x];
        y[row] = sum;
    }
}
