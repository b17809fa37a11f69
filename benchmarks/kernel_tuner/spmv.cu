// One warp a row.
#if read_only
#define READ(address) __ldg(address)
#else
#define READ(address) *(address)
#endif
extern "C" __global__ void spmv(float *y, const int *rows, const int *cols, const float *values, const float *x, int n)
{
    const int row = (blockIdx.x * block_size_x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    float sum = 0;
    for (int i = rows[row] + lane; i < rows[row + 1]; i += 32) sum += values[i] * READ(x + cols[i]);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (lane == 0) y[row] = sum;
}
