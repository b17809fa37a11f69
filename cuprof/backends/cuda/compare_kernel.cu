// Compares an output with its reference on the device. OUT is the output's type, REF the reference's, BOUND that of the
// tolerance where each element has its own; a double holds every value of each exactly.
//
// What it finds has the meaning of cuprof/worker/check.py, which decides whenever `failing` is not zero.

struct bfloat16 {
    unsigned short bits;
    __device__ operator double() const { return __uint_as_float((unsigned int)bits << 16); }
};
struct float16 {
    unsigned short bits;
    __device__ operator double() const {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
};
struct float8_e5m2 {
    unsigned char bits;
    __device__ operator double() const { return float16{(unsigned short)(bits << 8)}; }
};
struct float8_e4m3fn {
    unsigned char bits;
    __device__ operator double() const {
        const int exponent = bits >> 3 & 15, fraction = bits & 7;
        if ((bits & 127) == 127) return __longlong_as_double(0x7ff8000000000000ll);
        const double size = exponent ? ldexp(8.0 + fraction, exponent - 10) : ldexp((double)fraction, -9);
        return bits & 128 ? -size : size;
    }
};

struct Found {
    unsigned long long failing;         // elements outside their tolerance, NaN among them
    unsigned long long largest_error;   // bits of the largest |output - expected| / allowed of those inside
    unsigned long long largest_distance;  // bits of the largest |output - expected| where the tolerance is finite
    unsigned long long examined;        // elements looked at: all of them, or nothing is said
    double squared_distance;            // sums over elements whose tolerance is finite
    double squared_expected;
};

#define INFINITE __longlong_as_double(0x7ff0000000000000ll)
#define NOT_LOOKED_AT (-INFINITE)  // the bound of an element that need not be written

// Doubles that are not negative compare like their bits.
__device__ void raise(unsigned long long* cell, double value) {
    atomicMax(cell, (unsigned long long)__double_as_longlong(value));
}

extern "C" __global__ void __launch_bounds__(256) cuprof_compare(
    const OUT* __restrict__ output, const REF* __restrict__ expected, const BOUND* __restrict__ absolute,
    double one_absolute, double relative, unsigned long long count, Found* found) {
    unsigned long long failing = 0, examined = 0;
    double error = 0.0, distance = 0.0, squared_distance = 0.0, squared_expected = 0.0;
    for (unsigned long long i = (unsigned long long)blockIdx.x * 256 + threadIdx.x; i < count;
         i += (unsigned long long)gridDim.x * 256) {
        ++examined;
        const double is = (double)output[i];
        const double should = (double)expected[i];
        const double magnitude = fabs(should) < INFINITE ? fabs(should) : 0.0;
        const double allowed = (absolute ? (double)absolute[i] : one_absolute) + relative * magnitude;
        if (allowed == NOT_LOOKED_AT) continue;
        const double off = is == should ? 0.0 : fabs(is - should);
        const double own = off == 0.0 ? 0.0 : off / allowed;
        if (!(allowed >= 0.0) || !(own <= 1.0)) {
            ++failing;
        } else {
            error = fmax(error, own);
            if (allowed < INFINITE) {
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

// What the inputs of one set make right, of how many elements, and how far a result may lie from it. Without `expected`
// nothing is compared.
struct Standard {
    const REF* expected;
    const BOUND* absolute;
    double one_absolute;
    double relative;
    unsigned long long count;
};

// What became of the executions of one variant so far; the last block of the last output closes each of them.
struct Tally {
    unsigned long long failing;
    unsigned int blocks;
    unsigned int unused;
    unsigned long long compared;
    unsigned long long wrong;
};

// Returns whether one element lies outside its tolerance, NaN among them. There is no division, which would take longer
// than reading the element.
__device__ __forceinline__ bool fails(OUT found, REF expected, const Standard& standard, unsigned long long i) {
    const double is = (double)found, should = (double)expected;
    const double magnitude = fabs(should) < INFINITE ? fabs(should) : 0.0;
    const double allowed = (standard.absolute ? (double)standard.absolute[i] : standard.one_absolute) +
                           standard.relative * magnitude;
    if (allowed == NOT_LOOKED_AT) return false;
    const double off = is == should ? 0.0 : fabs(is - should);
    return !(allowed >= 0.0) || !(off <= allowed) || off == INFINITE;
}

// Looks at some elements, drawn by the device's clock, as soon as the frame has ended. What goes on after it would have
// written them by the time that all are looked at.
extern "C" __global__ void cuprof_glance(const OUT* output, const Standard* standards, const unsigned int* draw,
                                         Tally* tally) {
    const Standard standard = standards[*draw & 0xffffu];
    if (!standard.expected || !standard.count) return;
    unsigned long long place = (unsigned long long)clock64() + blockIdx.x * blockDim.x + threadIdx.x;
    place = (place ^ (place >> 33)) * 0xff51afd7ed558ccdull;
    place = (place ^ (place >> 33)) * 0xc4ceb9fe1a85ec53ull;
    place = (place ^ (place >> 33)) % standard.count;
    if (fails(output[place], standard.expected[place], standard, place)) atomicAdd(&tally->failing, 1ull);
}

// Holds one output against the standard of the inputs that were drawn. Several elements are read before the first one is
// looked at, which keeps the memory busy.
#define AT_ONCE 4
extern "C" __global__ void __launch_bounds__(256)
cuprof_verify(const OUT* __restrict__ output, const Standard* standards, const unsigned int* draw, unsigned int is_last,
              Tally* tally) {
    const Standard standard = standards[*draw & 0xffffu];
    if (!standard.expected) return;
    const REF* __restrict__ expected = standard.expected;
    const unsigned long long stride = (unsigned long long)gridDim.x * 256;
    unsigned long long i = (unsigned long long)blockIdx.x * 256 + threadIdx.x;
    unsigned long long failing = 0;
    for (; i + (AT_ONCE - 1) * stride < standard.count; i += AT_ONCE * stride) {
        OUT found[AT_ONCE];
        REF right[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) found[k] = output[i + k * stride];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) right[k] = expected[i + k * stride];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) failing += fails(found[k], right[k], standard, i + k * stride);
    }
    for (; i < standard.count; i += stride) failing += fails(output[i], expected[i], standard, i);
    for (int lane = 16; lane > 0; lane /= 2) failing += __shfl_down_sync(0xffffffffu, failing, lane);
    if (threadIdx.x % 32 == 0 && failing) atomicAdd(&tally->failing, failing);
    __threadfence();
    __syncthreads();
    if (threadIdx.x != 0 || atomicAdd(&tally->blocks, 1u) != gridDim.x - 1) return;
    tally->blocks = 0;
    if (!is_last) return;
    if (atomicExch(&tally->failing, 0ull)) ++tally->wrong;
    ++tally->compared;
}
