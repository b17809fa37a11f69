// Step 9: step 8 with 16-byte loads, a quarter of the load instructions.
// Macros: BLOCK threads a block, LOADS 16-byte loads in flight a thread.
#include "block_shuffle.cuh"
#include "vector_sum.cuh"

// The 1 allows as many registers as one block a multiprocessor can have: ptxas then issues all loads of a trip at once.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    vector4(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    const T sum = block_shuffle<BLOCK>(vector_sum<LOADS>(in, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
