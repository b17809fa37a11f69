// Step 10: one launch. Each block leaves its partial sum; the block that finishes last adds the partial sums, in the order
// of the blocks, so that the result does not depend on which one that is.
// Macros: BLOCK threads a block, LOADS 16-byte loads in flight a thread.
#include "block_shuffle.cuh"
#include "vector_sum.cuh"

// Zero when the module is loaded, and wrapped to zero by the last block of every launch: nothing to clear in between.
// One launch at a time may use it.
__device__ unsigned int finished = 0;

// Return how many blocks had finished before this one.
//
// Release: this thread's partial sum is visible to whoever sees the new count. Acquire: whoever sees the last count sees
// the partial sums of all. No more is needed; __threadfence() would order more than that (sequential consistency).
__device__ unsigned int take_ticket()
{
    unsigned int ticket;
    asm volatile("atom.acq_rel.gpu.inc.u32 %0, [%1], %2;"
                 : "=r"(ticket)
                 : "l"(&finished), "r"(gridDim.x - 1)
                 : "memory");
    return ticket;
}

// The 1 allows as many registers as one block a multiprocessor can have: ptxas then issues all loads of a trip at once.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    single_pass(const T* __restrict__ in, T* partials, T* __restrict__ out, unsigned int n)
{
    __shared__ bool last;
    T sum = block_shuffle<BLOCK>(vector_sum<LOADS>(in, n));
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = sum;
        last = take_ticket() == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;

    sum = T(0);
    for (unsigned int i = threadIdx.x; i < gridDim.x; i += BLOCK) sum += __ldcg(partials + i);  // past the L1 cache
    sum = block_shuffle<BLOCK>(sum);
    if (threadIdx.x == 0) *out = sum;
}
