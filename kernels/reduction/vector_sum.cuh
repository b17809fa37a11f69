// Many elements a thread in 16-byte loads, several of them in flight.
#pragma once
#include "element.cuh"

template <typename Element> struct FourOf;
template <> struct FourOf<float> { using Type = float4; };
template <> struct FourOf<int> { using Type = int4; };
using Four = FourOf<T>::Type;

__device__ inline Four add(Four a, Four b)
{
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

// Add values[0…IN_FLIGHT-1] as a tree, which is both shorter and more accurate than one after the other.
template <int IN_FLIGHT>
__device__ Four add_all(Four (&values)[IN_FLIGHT])
{
    static_assert((IN_FLIGHT & (IN_FLIGHT - 1)) == 0, "the tree halves the values until one is left");
#pragma unroll
    for (int half = IN_FLIGHT / 2; half > 0; half /= 2) {
#pragma unroll
        for (int k = 0; k < half; ++k) values[k] = add(values[k], values[k + half]);
    }
    return values[0];
}

// Return the sum of this thread's share of in[0…n-1]; in is aligned to 16 bytes, n is any number.
//
// A thread takes IN_FLIGHT vectors a trip, a grid's width apart, all requested before the first add: bytes in flight are
// what hides the latency of device memory. They are read once, so `__ldcs` lets the caches evict them first. What the
// full trips leave is one last trip with guarded loads, again all in flight, and n % 4 elements for the first threads.
template <int IN_FLIGHT>
__device__ T vector_sum(const T* __restrict__ in, unsigned int n)
{
    const Four* __restrict__ vectors = reinterpret_cast<const Four*>(in);
    const unsigned int count = n / 4;
    const unsigned int stride = gridDim.x * blockDim.x;
    const unsigned int first = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int i = first;
    Four total = {0, 0, 0, 0};
    Four values[IN_FLIGHT];

    for (; i + (IN_FLIGHT - 1) * stride < count; i += IN_FLIGHT * stride) {
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) values[k] = __ldcs(vectors + i + k * stride);
        total = add(total, add_all(values));
    }
    if (i < count) {
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k)
            values[k] = i + k * stride < count ? __ldcs(vectors + i + k * stride) : Four{0, 0, 0, 0};
        total = add(total, add_all(values));
    }

    T sum = (total.x + total.y) + (total.z + total.w);
    if (first < n % 4) sum += in[4 * count + first];
    return sum;
}
