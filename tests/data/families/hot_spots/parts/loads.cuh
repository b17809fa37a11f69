#pragma once

namespace gemv {

struct Vector4 {
    static constexpr int width = 4;

    template <class Body>
    static __device__ __forceinline__ void each(const float* a, const float* w, int first, int count, int step, Body body)
    {
        const float4* matrix = reinterpret_cast<const float4*>(a);
        const float4* weights = reinterpret_cast<const float4*>(w);
        for (int place = first; place < count / width; place += step) {
            const float4 left = matrix[place];
            const float4 right = __ldg(weights + place);
            body(left.x, right.x);
            body(left.y, right.y);
            body(left.z, right.z);
            body(left.w, right.w);
        }
    }
};

}  // namespace gemv
