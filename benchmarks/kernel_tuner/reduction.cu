// Every block adds up its share; the block that is done last adds up the blocks' sums, always in the same order.
#if vector == 1
#define LOADED float
#define ADD(v) (v)
#elif vector == 2
#define LOADED float2
#define ADD(v) (v.x + v.y)
#else
#define LOADED float4
#define ADD(v) (v.x + v.y + v.z + v.w)
#endif
__device__ float sums[num_blocks];
__device__ unsigned int done;  // wraps to 0 with the last block

__device__ float add_up(float mine)
{
    __shared__ float shared[block_size_x];
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int half = block_size_x / 2; half > (use_shuffle ? 16 : 0); half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    float sum = shared[threadIdx.x % 32];
#if use_shuffle
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffff, sum, distance);
#endif
    __syncthreads();
    return sum;
}

extern "C" __global__ void sum_floats(float *sum, const float *x, int n)
{
    float mine = 0;
    const int step = num_blocks * block_size_x, start = blockIdx.x * block_size_x + threadIdx.x;
    for (int i = start; i < n / vector; i += step) {
        const LOADED v = reinterpret_cast<const LOADED *>(x)[i];
        mine += ADD(v);
    }
    for (int i = n / vector * vector + start; i < n; i += step) mine += x[i];
    const float total = add_up(mine);
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = total;
        __threadfence();
        is_last = atomicInc(&done, num_blocks - 1) == num_blocks - 1;
    }
    __syncthreads();
    if (!is_last) return;
    mine = 0;
    for (int i = threadIdx.x; i < num_blocks; i += block_size_x) mine += reinterpret_cast<volatile float *>(sums)[i];
    const float whole = add_up(mine);
    if (threadIdx.x == 0) *sum = whole;
}
