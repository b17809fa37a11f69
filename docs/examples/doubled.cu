#include <cooperative_groups.h>

#ifdef REAL
template <int SIZE, int FACTOR> __global__ void scale(const REAL *x, REAL *y, int n)
{
    const int i = blockIdx.x * SIZE + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
#endif

__global__ void plain(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}

struct Line { float slope; int length; };

__global__ void straight(const float *x, float *y, Line line)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < line.length) y[i] = line.slope * x[i];
}

__global__ void strides(const float *x, float *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
    cooperative_groups::this_grid().sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] *= 2;
}

__global__ void copied(const float *x, float *half, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.launch_dependents;");
    if (i < n) half[i] = x[i];
}

__global__ void waits(const float *half, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (i < n) y[i] = 2 * half[i];
}

__global__ void fetches(unsigned long long x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a, b, c, d;
    asm("tex.1d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5}];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x), "r"(i));
    if (i < n) y[i] = 2 * a;
}

struct alignas(64) Map { char content[128]; };

__global__ void boxes(const __grid_constant__ Map x, float *y)
{
    __shared__ alignas(128) float box[256];
    __shared__ alignas(8) unsigned long long arrived;
    const unsigned bar = __cvta_generic_to_shared(&arrived), to = __cvta_generic_to_shared(box);
    const int place = blockIdx.x * 256;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(bar));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(bar));
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2}], [%3];" ::"r"(to), "l"(&x), "r"(place), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra again;\n}" ::"r"(bar) : "memory");
    y[place + threadIdx.x] = 2 * box[threadIdx.x];
}
