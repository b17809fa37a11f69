extern "C" __global__ void tile_by_rows(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    __shared__ float tiles[THREADS / 32][32][32];
    const int lane = threadIdx.x % 32;
    float (*tile)[32] = tiles[threadIdx.x / 32];
    const int first = blockIdx.x * THREADS + threadIdx.x - lane;
    float sum = 0.0f;
    for (int column = 0; column < columns; column += 32) {
#pragma unroll
        for (int row = 0; row < 32; ++row) tile[row][lane] = a[(first + row) * columns + column + lane];
        __syncwarp();
#pragma unroll
        for (int each = 0; each < 32; ++each) {
            const float weight = __ldg(w + column + each);
            const float value = tile[lane][each];  // planted
            sum += value * weight;
        }
        __syncwarp();
    }
    y[first + lane] = sum;
}
