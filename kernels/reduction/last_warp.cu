// Step 5: once no more than 64 elements are left, one warp does the rest written out: no loop, no block barrier.
#include "load.cuh"
#include "warp_tree.cuh"

__device__ void sum_block(T sum, T* __restrict__ out)
{
    extern __shared__ T shared[];
    const unsigned int thread = threadIdx.x;
    shared[thread] = sum;
    __syncthreads();

    for (unsigned int stride = blockDim.x / 2; stride > 32; stride /= 2) {
        if (thread < stride) shared[thread] += shared[thread + stride];
        __syncthreads();
    }

    if (thread < 32) sum = warp_tree(shared, thread, blockDim.x);
    if (thread == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void last_warp(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    sum_block(load_sum<2>(in, n), out);
}

extern "C" __global__ void last_warp_later(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    sum_block(load_sum<1>(in, n), out);
}
