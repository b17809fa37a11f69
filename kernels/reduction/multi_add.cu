// Step 7: many elements a thread before the tree, so that the tree's cost is shared by more input and fewer blocks are
// started. Macros: BLOCK threads a block, LOADS loads in flight a thread.
#include "block_tree.cuh"
#include "grid_stride.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
    multi_add(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    const T sum = block_tree<BLOCK>(grid_stride_sum<LOADS>(in, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
