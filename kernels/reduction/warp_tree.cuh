// The last 32 threads' part of the tree, written out: one warp, no block barrier.
#pragma once
#include "element.cuh"

// Return the sum of shared[0…min(threads, 64)-1] in lane 0 (elsewhere it is undefined); all lanes of warp 0 call it.
//
// The lanes of a warp do not run in lockstep (Volta and later), so that a `volatile` pointer does not order them: each
// step reads into a register, waits for all lanes to have read, then writes, and waits for all to have written. Lanes
// whose element no longer counts read on beyond it; shared memory must therefore hold at least 64 elements.
__device__ inline T warp_tree(T* shared, unsigned int lane, unsigned int threads)
{
    T sum = shared[lane];
    if (threads >= 64) sum += shared[lane + 32];
    __syncwarp();
    shared[lane] = sum;
    __syncwarp();
    sum += shared[lane + 16];
    __syncwarp();
    shared[lane] = sum;
    __syncwarp();
    sum += shared[lane + 8];
    __syncwarp();
    shared[lane] = sum;
    __syncwarp();
    sum += shared[lane + 4];
    __syncwarp();
    shared[lane] = sum;
    __syncwarp();
    sum += shared[lane + 2];
    __syncwarp();
    shared[lane] = sum;
    __syncwarp();
    return sum + shared[lane + 1];
}
