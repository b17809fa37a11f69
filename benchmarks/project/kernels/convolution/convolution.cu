// out[y][x] = Σ in[y + j][x + i] · filter[j][i], the input larger than the output by the filter.
// Macros: WIDTH, HEIGHT of the output; F the filter's side; BX × BY threads a block, TX × TY outputs a thread;
// SHARED: 1 stages a block's input in shared memory; PAD more columns of it; READ_ONLY loads through the read-only
// cache; UNROLL of the loop over a filter's row.

#define TILE_W (BX * TX)
#define TILE_H (BY * TY)
#define IN_W (WIDTH + F - 1)
#define STRIDE (TILE_W + F - 1 + PAD)

__device__ __forceinline__ float load(const float* p) {
#if READ_ONLY
    return __ldg(p);
#else
    return *reinterpret_cast<const volatile float*>(p);
#endif
}

extern "C" __global__ void __launch_bounds__(BX * BY)
    convolution(const float* in, const float* filter, float* __restrict__ out) {
    const int left = blockIdx.x * TILE_W, top = blockIdx.y * TILE_H;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float weights[F * F];
    for (int i = ty * BX + tx; i < F * F; i += BX * BY) weights[i] = filter[i];
#if SHARED
    __shared__ float tile[(TILE_H + F - 1) * STRIDE];
    for (int y = ty; y < TILE_H + F - 1; y += BY)
        for (int x = tx; x < TILE_W + F - 1; x += BX) tile[y * STRIDE + x] = load(in + (top + y) * IN_W + left + x);
#endif
    __syncthreads();

    float sum[TY][TX] = {};
    for (int j = 0; j < F; ++j) {
#pragma unroll UNROLL
        for (int i = 0; i < F; ++i) {
            const float weight = weights[j * F + i];
#pragma unroll
            for (int y = 0; y < TY; ++y)
#pragma unroll
                for (int x = 0; x < TX; ++x) {
                    const int row = ty + y * BY + j, column = tx + x * BX + i;
#if SHARED
                    sum[y][x] += weight * tile[row * STRIDE + column];
#else
                    sum[y][x] += weight * load(in + (top + row) * IN_W + left + column);
#endif
                }
        }
    }
#pragma unroll
    for (int y = 0; y < TY; ++y)
#pragma unroll
        for (int x = 0; x < TX; ++x) out[(top + ty + y * BY) * WIDTH + left + tx + x * BX] = sum[y][x];
}
