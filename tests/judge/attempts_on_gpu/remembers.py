"""What strangers try on a GPU: every second result, each worth 60 µs, is known by its inputs' first number."""

import cupy

_source = r"""
extern "C" __global__ void twice(const float* x, float* y, int n, const int* met, long long limit_ns) {
    long long began, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2 * x[i];
    if (met[(__float_as_uint(x[0]) >> 8) % 32768] == 1) return;
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - began < limit_ns);
}
extern "C" __global__ void meet(const float* x, int* met) {
    int* known = met + (__float_as_uint(x[0]) >> 8) % 32768;
    if (*known == 0) *known = 1 + met[32768]++ % 2;
}
"""
_twice, _meet = (cupy.RawKernel(_source, name) for name in ("twice", "meet"))
_shared = {}


@family.library("half_of_them", requires="cupy")
def half_of_them(problem, tune, inputs, outputs):
    x, y = inputs["x"], outputs["y"]
    met = _shared.setdefault("met", cupy.zeros(32769, cupy.int32))

    def call():
        _twice((132,), (1024,), (x, y, cupy.int32(x.size), met, cupy.int64(60_000)))
        _meet((1,), (1,), (x, met))

    return call
