extern "C" __global__ void thread_a_row(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    const int row = blockIdx.x * THREADS + threadIdx.x;
    float sum = 0.0f;
    for (int column = 0; column < columns; ++column) {
        const float weight = w[column];
        const float value = a[row * columns + column];  // planted
        sum += value * weight;
    }
    y[row] = sum;
}
