// Step 6: the passes of step 5 with the whole tree written out by template. The block size is the macro BLOCK.
#include "block_tree.cuh"
#include "load.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
    unrolled(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    const T sum = block_tree<BLOCK>(load_sum<2>(in, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    unrolled_later(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    const T sum = block_tree<BLOCK>(load_sum<1>(in, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
