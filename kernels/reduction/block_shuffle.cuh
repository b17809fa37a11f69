// A block's sum through warp shuffles: one shared-memory word a warp and one block barrier.
#pragma once
#include "element.cuh"

// Return the sum over the warp's lanes in lane 0 (elsewhere it is undefined).
__device__ inline T warp_sum(T value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// Return the sum of every thread's value in thread 0 (elsewhere it is undefined); all THREADS threads call it.
// A second call in one kernel needs a block barrier between the two: both use the same shared memory.
template <unsigned int THREADS>
__device__ T block_shuffle(T value)
{
    __shared__ T warps[THREADS / 32];
    const unsigned int lane = threadIdx.x % 32;
    const unsigned int warp = threadIdx.x / 32;
    value = warp_sum(value);
    if constexpr (THREADS > 32) {
        if (lane == 0) warps[warp] = value;
        __syncthreads();
        if (warp == 0) value = warp_sum(lane < THREADS / 32 ? warps[lane] : T(0));
    }
    return value;
}
