// The whole tree written out by template: the block size is known when compiling, so that no loop and no comparison of
// strides is left.
#pragma once
#include "warp_tree.cuh"

// Return the sum of every thread's value in thread 0 (elsewhere it is undefined); all THREADS threads call it.
template <unsigned int THREADS>
__device__ T block_tree(T value)
{
    __shared__ T shared[THREADS < 64 ? 64 : THREADS];
    const unsigned int thread = threadIdx.x;
    shared[thread] = value;
    __syncthreads();

    if constexpr (THREADS >= 1024) {
        if (thread < 512) shared[thread] += shared[thread + 512];
        __syncthreads();
    }
    if constexpr (THREADS >= 512) {
        if (thread < 256) shared[thread] += shared[thread + 256];
        __syncthreads();
    }
    if constexpr (THREADS >= 256) {
        if (thread < 128) shared[thread] += shared[thread + 128];
        __syncthreads();
    }
    if constexpr (THREADS >= 128) {
        if (thread < 64) shared[thread] += shared[thread + 64];
        __syncthreads();
    }
    if (thread < 32) value = warp_tree(shared, thread, THREADS);
    return value;
}
