#include "parts/loads.cuh"
#include "parts/operations.cuh"
#include "parts/policies.cuh"

namespace gemv {

template <class Policy, class Loads, class Operation>
__global__ void kernel(const float* __restrict__ a, const float* __restrict__ w, float* y, int columns)
{
    float sum = 0.0f;
    const float* row = a + static_cast<long long>(Policy::row()) * columns;
    Loads::each(row, w, Policy::lane(), columns, 32, [&](float left, float right) {
        sum = Operation::apply(sum, left, right);
    });
    sum = Policy::reduce(sum);
    if (Policy::lane() == 0) y[Policy::row()] = sum;
}

}  // namespace gemv
