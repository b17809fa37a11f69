#pragma once

namespace gemv {

struct Multiply {
    static __device__ __forceinline__ float apply(float sum, float left, float right) { return fmaf(left, right, sum); }
};

}  // namespace gemv
