// Step 3: the stride runs from half the block down to 1 and thread t adds element t + stride, so that neighbouring lanes
// read neighbouring words: no bank conflicts.
#include "element.cuh"

extern "C" __global__ void sequential(const T* __restrict__ in, T* __restrict__ out, unsigned int n)
{
    extern __shared__ T shared[];
    const unsigned int thread = threadIdx.x;
    const unsigned int i = blockIdx.x * blockDim.x + thread;
    shared[thread] = i < n ? in[i] : T(0);
    __syncthreads();

    for (unsigned int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (thread < stride) shared[thread] += shared[thread + stride];
        __syncthreads();
    }

    if (thread == 0) out[blockIdx.x] = shared[0];
}
