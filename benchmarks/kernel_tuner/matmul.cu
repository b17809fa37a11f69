// One block: block_size_x * tile_size_x columns by block_size_y * tile_size_y rows of C, tiles of A and B in shared memory.
// n is a multiple of both, and block_size_x == block_size_y * tile_size_y.
extern "C" __global__ void matmul(float *c, const float *a, const float *b, int n)
{
    constexpr int ROWS = block_size_y * tile_size_y, COLUMNS = block_size_x * tile_size_x;
    __shared__ float left[ROWS][block_size_x], right[block_size_x][COLUMNS];
    const int row = blockIdx.y * ROWS + threadIdx.y, column = blockIdx.x * COLUMNS + threadIdx.x;
    float sum[tile_size_y][tile_size_x] = {};
    for (int k = 0; k < n; k += block_size_x) {
        for (int i = 0; i < tile_size_y; i++) {
            const int y = threadIdx.y + i * block_size_y;
            left[y][threadIdx.x] = a[(row + i * block_size_y) * n + k + threadIdx.x];
            for (int j = 0; j < tile_size_x; j++)
                right[y][threadIdx.x + j * block_size_x] = b[(k + y) * n + column + j * block_size_x];
        }
        __syncthreads();
        for (int step = 0; step < block_size_x; step++)
            for (int i = 0; i < tile_size_y; i++)
                for (int j = 0; j < tile_size_x; j++)
                    sum[i][j] += left[threadIdx.y + i * block_size_y][step] * right[step][threadIdx.x + j * block_size_x];
        __syncthreads();
    }
    for (int i = 0; i < tile_size_y; i++)
        for (int j = 0; j < tile_size_x; j++) c[(row + i * block_size_y) * n + column + j * block_size_x] = sum[i][j];
}
