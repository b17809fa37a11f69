// Step 2: the tree of step 1, but the working threads are neighbours: thread t works on element 2·stride·t. Whole warps
// work or rest; the price is that the lanes of a warp now meet in the same banks of shared memory.
#include "element.cuh"

extern "C" __global__ void interleaved_compacted(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    extern __shared__ T shared[];
    const unsigned int thread = threadIdx.x;
    const unsigned int i = blockIdx.x * blockDim.x + thread;
    shared[thread] = i < n ? in[i] : T(0);
    __syncthreads();

    for (unsigned int stride = 1; stride < blockDim.x; stride *= 2) {
        const unsigned int index = 2 * stride * thread;
        if (index < blockDim.x) shared[index] += shared[index + stride];
        __syncthreads();
    }

    if (thread == 0) out[blockIdx.x] = shared[0];
}
