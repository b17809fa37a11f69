// Reads all of x and folds each block's share, then waits for spin_ns nanoseconds by the device's clock.
// All blocks run at the same time, and each waits after its share, so the whole kernel lasts that much longer.

extern "C" __global__ void __launch_bounds__(512) padded_read(const uint4* __restrict__ x, unsigned int words,
                                                              unsigned int* __restrict__ folded,
                                                              unsigned long long spin_ns) {
    __shared__ unsigned int parts[16];
    const unsigned int stride = gridDim.x * blockDim.x;
    unsigned int sum = 0;
#pragma unroll 8
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride) {
        const uint4 v = __ldg(x + i);
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    for (int step = 16; step; step /= 2) sum ^= __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int k = 0; k < 16; ++k) sum ^= parts[k];
        folded[blockIdx.x] = sum;
        if (spin_ns) {
            unsigned long long start, now;
            asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
            do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
            while (now - start < spin_ns);
        }
    }
}
