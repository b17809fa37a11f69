// What a thread brings to its block's tree in steps 4 and 5 and in the unrolled tree.
#pragma once
#include "element.cuh"

// Return the sum of this thread's PER_THREAD elements of its block's PER_THREAD·blockDim; elements from n on count as zero.
template <int PER_THREAD>
__device__ T load_sum(const T* __restrict__ in, unsigned int n)
{
    const unsigned int i = blockIdx.x * (PER_THREAD * blockDim.x) + threadIdx.x;
    T sum = i < n ? in[i] : T(0);
    if (PER_THREAD == 2 && i + blockDim.x < n) sum += in[i + blockDim.x];
    return sum;
}
