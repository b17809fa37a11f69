// Many elements a thread, one at a time.
#pragma once
#include "element.cuh"

// Return the sum of this thread's share of in[0…n-1]: the elements at its own index and every grid's width further on.
//
// The guarded loads of one trip depend on nothing, so that the compiler issues IN_FLIGHT of them before the first add.
template <int IN_FLIGHT>
__device__ T grid_stride_sum(const T* __restrict__ in, unsigned int n)
{
    const unsigned int stride = gridDim.x * blockDim.x;
    T sum = T(0);
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += IN_FLIGHT * stride) {
        T values[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) values[k] = i + k * stride < n ? in[i + k * stride] : T(0);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) sum += values[k];
    }
    return sum;
}
