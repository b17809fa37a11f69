// Compares an output with its reference on the device. OUT is the output's type.
//
// What it finds has the meaning of cuprof/worker/check.py, which decides whenever `failing` is not zero.

struct Found {
    unsigned long long failing;         // elements outside their tolerance, NaN among them
    unsigned long long largest_error;   // bits of the largest |output - expected| / allowed of those inside
    unsigned long long largest_distance;  // bits of the largest |output - expected| where the tolerance is finite
    unsigned long long examined;        // elements looked at: all of them, or nothing is said
    double squared_distance;            // sums over elements whose tolerance is finite
    double squared_expected;
};

// Doubles that are not negative compare like their bits.
__device__ void raise(unsigned long long* cell, double value) {
    atomicMax(cell, (unsigned long long)__double_as_longlong(value));
}

extern "C" __global__ void __launch_bounds__(256) cuprof_compare(
    const OUT* __restrict__ output, const double* __restrict__ expected, const double* __restrict__ absolute,
    double one_absolute, double relative, unsigned long long count, Found* found) {
    const double limit = __longlong_as_double(0x7ff0000000000000ll);
    unsigned long long failing = 0, examined = 0;
    double error = 0.0, distance = 0.0, squared_distance = 0.0, squared_expected = 0.0;
    for (unsigned long long i = (unsigned long long)blockIdx.x * 256 + threadIdx.x; i < count;
         i += (unsigned long long)gridDim.x * 256) {
        ++examined;
        const double is = (double)output[i];
        const double should = expected[i];
        const double magnitude = fabs(should) < limit ? fabs(should) : 0.0;
        const double allowed = (absolute ? absolute[i] : one_absolute) + relative * magnitude;
        const double off = is == should ? 0.0 : fabs(is - should);
        const double own = off == 0.0 ? 0.0 : off / allowed;
        if (!(allowed >= 0.0) || !(own <= 1.0)) {
            ++failing;
        } else {
            error = fmax(error, own);
            if (allowed < limit) {
                distance = fmax(distance, off);
                squared_distance += off * off;
                squared_expected += magnitude * magnitude;
            }
        }
    }
    for (int lane = 16; lane > 0; lane /= 2) {
        failing += __shfl_down_sync(0xffffffffu, failing, lane);
        examined += __shfl_down_sync(0xffffffffu, examined, lane);
        error = fmax(error, __shfl_down_sync(0xffffffffu, error, lane));
        distance = fmax(distance, __shfl_down_sync(0xffffffffu, distance, lane));
        squared_distance += __shfl_down_sync(0xffffffffu, squared_distance, lane);
        squared_expected += __shfl_down_sync(0xffffffffu, squared_expected, lane);
    }
    if (threadIdx.x % 32 == 0) {
        if (failing) atomicAdd(&found->failing, failing);
        atomicAdd(&found->examined, examined);
        raise(&found->largest_error, error);
        raise(&found->largest_distance, distance);
        atomicAdd(&found->squared_distance, squared_distance);
        atomicAdd(&found->squared_expected, squared_expected);
    }
}
