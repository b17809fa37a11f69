// Step 1: a tree in shared memory over interleaved neighbours. The working threads are those whose index is a multiple
// of 2·stride, so that every warp stays half idle, then three quarters idle, down to one working lane a warp.
#include "element.cuh"

extern "C" __global__ void interleaved_divergent(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    extern __shared__ T shared[];
    const unsigned int thread = threadIdx.x;
    const unsigned int i = blockIdx.x * blockDim.x + thread;
    shared[thread] = i < n ? in[i] : T(0);
    __syncthreads();

    for (unsigned int stride = 1; stride < blockDim.x; stride *= 2) {
        if (thread % (2 * stride) == 0) shared[thread] += shared[thread + stride];
        __syncthreads();
    }

    if (thread == 0) out[blockIdx.x] = shared[0];
}
