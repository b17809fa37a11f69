#pragma once

namespace gemv {

template <int count>
struct Warps {
    static constexpr int a_block = count;
    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }
    static __device__ __forceinline__ int row() { return blockIdx.x * count + threadIdx.x / 32; }

    static __device__ __forceinline__ float reduce(float value)
    {
        for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
        return value;
    }
};

}  // namespace gemv
