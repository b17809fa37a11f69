// Step 8: step 7 with warp shuffles in the place of the shared-memory tree: one block barrier instead of one a level.
// Macros: BLOCK threads a block, LOADS loads in flight a thread.
#include "block_shuffle.cuh"
#include "grid_stride.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
    warp_shuffle(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    const T sum = block_shuffle<BLOCK>(grid_stride_sum<LOADS>(in, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
