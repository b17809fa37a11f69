// Read a buffer that is far larger than the L2 cache, and note when each piece of it had arrived.

__device__ unsigned long long device_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

// ended: gridDim.x × pieces time stamps in ns. A piece is READS × blockDim.x vectors of 16 bytes.
extern "C" __global__ void read_in_pieces(
    const uint4* data, unsigned long long vectors, unsigned int pieces, unsigned long long* ended)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long place = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned int piece = 0; piece < pieces; ++piece) {
        unsigned int sum = 0;
        #pragma unroll
        for (int read = 0; read < READS; ++read) {
            const uint4 value = __ldcs(data + place);
            sum |= value.x | value.y | value.z | value.w;
            place += step;
            if (place >= vectors) place -= vectors;
        }
        if (__syncthreads_or(sum) == 0 && threadIdx.x == 0)  // always 0: the buffer holds zeros; the sum awaits them
            ended[(unsigned long long)blockIdx.x * pieces + piece] = device_ns();
    }
}
