// Kernels that need more than a grid and a block to be launched.
typedef unsigned long long cudaTextureObject_t;

// Each block of a cluster of two writes what the other one has read.
extern "C" __global__ void exchanges(const float* x, float* y, int n) {
    __shared__ float held[256];
    unsigned rank, other;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    int begin = (blockIdx.x - rank) * blockDim.x, mine = begin + rank * blockDim.x + threadIdx.x;
    held[threadIdx.x] = mine < n ? x[mine] : 0.0f;
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    unsigned local = (unsigned)__cvta_generic_to_shared(&held[threadIdx.x]);
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(local), "r"(rank ^ 1));
    float got;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(got) : "r"(other));
    int theirs = begin + (rank ^ 1) * blockDim.x + threadIdx.x;
    if (theirs < n) y[theirs] = 2.0f * got;
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

extern "C" __global__ void first(const float* x, float* half, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.launch_dependents;");
    if (i < n) half[i] = x[i];
}

// May begin while `first` runs, and waits for it.
extern "C" __global__ void second(const float* half, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (i < n) y[i] = 2.0f * half[i];
}

extern "C" __global__ void fetches(cudaTextureObject_t x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a, b, c, d;
    asm("tex.1d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5}];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x), "r"(i));
    if (i < n) y[i] = 2.0f * a;
}

extern "C" __global__ void fetches_rows(cudaTextureObject_t x, float* y, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, column = i % width, row = i / width;
    float a, b, c, d;
    asm("tex.2d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
        : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x), "r"(column), "r"(row));
    if (i < n) y[i] = 2.0f * a;
}

struct alignas(64) TensorMap { char content[128]; };

// TMA brings a box into shared memory, and takes the doubled one out.
extern "C" __global__ void copies_boxes(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y) {
    __shared__ alignas(128) float box[256];
    __shared__ alignas(8) unsigned long long arrived;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&arrived), to = (unsigned)__cvta_generic_to_shared(box);
    int place = blockIdx.x * 256;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(bar));
        asm volatile(
            "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(to),
            "l"(&x), "r"(place), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile(
        "{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra again;\n}" ::"r"(bar)
        : "memory");
    box[threadIdx.x] *= 2.0f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];" ::"l"(&y), "r"(place),
                     "r"(to) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}
