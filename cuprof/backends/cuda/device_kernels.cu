// The framework's own kernels: they prepare and frame a timed execution and are never part of it.

__device__ __forceinline__ unsigned long long now_ns() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// Where a kernel of ours leaves how long it ran, by both of the device's clocks. Their quotient is the SM clock.
struct Stamp {
    unsigned long long cycles;
    unsigned long long ns;
    unsigned int expired;
    unsigned int unused;
};

// Reads `words` 16-byte words, so that what the caches held before is evicted and every line left behind is clean.
// The sum is written only if it has one particular value, which keeps the loads alive and writes nothing.
extern "C" __global__ void __launch_bounds__(512) cuprof_read_through(const uint4* __restrict__ data, unsigned long long words,
                                                               unsigned int* sink, Stamp* stamp) {
    const unsigned long long start_ns = now_ns();
    const long long start = clock64();
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int sum = 0;
    for (; i + 7 * stride < words; i += 8 * stride) {
        uint4 part[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) part[k] = __ldg(data + i + k * stride);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += part[k].x ^ part[k].y ^ part[k].z ^ part[k].w;
    }
    for (; i < words; i += stride) {
        const uint4 part = __ldg(data + i);
        sum += part.x ^ part.y ^ part.z ^ part.w;
    }
    if (sum == 0x9E3779B9u) *sink = sum;
    if (stamp && blockIdx.x == 0 && threadIdx.x == 0) {
        stamp->cycles = (unsigned long long)(clock64() - start);
        stamp->ns = now_ns() - start_ns;
    }
}

// Holds the stream until the host has written 1 to gate[0], but no longer than limit_ns, and at least least_ns, so that the clock can be told from the two counters. What the execution is to be given, gate[1], is read
// when the gate is open, hence when the host has enqueued everything, and left in device memory for the kernels behind.
extern "C" __global__ void cuprof_hold(const volatile unsigned int* gate, unsigned long long least_ns,
                                unsigned long long limit_ns, Stamp* stamp, unsigned int* draw) {
    const unsigned long long start_ns = now_ns();
    const long long start = clock64();
    unsigned int expired = 0;
    for (;;) {
        const unsigned long long spent = now_ns() - start_ns;
        if (*gate && spent >= least_ns) break;
        if (spent > limit_ns) {
            expired = 1;
            break;
        }
    }
    *draw = gate[1];
    stamp->cycles = (unsigned long long)(clock64() - start);
    stamp->ns = now_ns() - start_ns;
    stamp->expired = expired;
    __threadfence_system();
}

// An array that is written anew before an execution: with the drawn one of `contents`, or with a byte where there are none.
struct Refill {
    unsigned char* target;
    unsigned long long bytes;
    const unsigned char* const* contents;
    unsigned long long changes;  // an execution writes it, so its contents do not last
};

// Writes every array of the list anew. The low half of `draw` numbers the contents, the byte above it is the fill; the
// bit above that says that the inputs hold these contents already.
// Targets and contents begin at multiples of 16 bytes.
extern "C" __global__ void __launch_bounds__(512) cuprof_refill(const Refill* list, unsigned int count,
                                                                const unsigned int* draw) {
    const unsigned int drawn = *draw;
    const unsigned int fill = (drawn >> 16 & 255u) * 0x01010101u;
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned int k = 0; k < count; ++k) {
        const Refill each = list[k];
        if (each.contents && !each.changes && drawn >> 24 & 1u) continue;
        const unsigned char* source = each.contents ? each.contents[drawn & 0xffffu] : nullptr;
        const unsigned long long words = each.bytes / 16;
        uint4* target = reinterpret_cast<uint4*>(each.target);
        if (source) {
            const uint4* from = reinterpret_cast<const uint4*>(source);
            for (unsigned long long i = first; i < words; i += stride) target[i] = from[i];
        } else {
            for (unsigned long long i = first; i < words; i += stride) target[i] = make_uint4(fill, fill, fill, fill);
        }
        if (first < each.bytes % 16) {
            const unsigned long long i = 16 * words + first;
            each.target[i] = source ? source[i] : (unsigned char)fill;
        }
    }
}

// Runs for `ns` nanoseconds by the device's own clock: a kernel of known duration.
extern "C" __global__ void cuprof_spin(unsigned long long ns, Stamp* stamp) {
    const unsigned long long start_ns = now_ns();
    const long long start = clock64();
    while (now_ns() - start_ns < ns) {
    }
    if (stamp && threadIdx.x == 0) {
        stamp->cycles = (unsigned long long)(clock64() - start);
        stamp->ns = now_ns() - start_ns;
    }
}

extern "C" __global__ void cuprof_empty() {}

// Arithmetic alone: four independent chains of fused multiply-adds a thread. Writes nothing that anybody sees.
extern "C" __global__ void cuprof_multiply_add(float factor, unsigned int steps, float* sink) {
    float a = threadIdx.x, b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;
#pragma unroll 16
    for (unsigned int i = 0; i < steps; ++i) {
        a = fmaf(a, factor, 1.0f);
        b = fmaf(b, factor, 1.0f);
        c = fmaf(c, factor, 1.0f);
        d = fmaf(d, factor, 1.0f);
    }
    if (a + b + c + d == 12345.678f) *sink = a;
}

// Mixes a word with its position (Murmur3's finaliser), one to one for each position.
__device__ __forceinline__ unsigned int mixed(unsigned int word, unsigned long long position) {
    unsigned int h = word ^ ((unsigned int)position * 0x9E3779B9u + (unsigned int)(position >> 32));
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    return h ^ (h >> 16);
}

// A part of the device's memory.
struct Part {
    const unsigned char* data;
    unsigned long long bytes;
};

// Adds up the mixed words of each part, one a row of the grid; what is left over of the last word counts byte by byte.
extern "C" __global__ void __launch_bounds__(512) cuprof_checksum(const Part* parts, unsigned long long* sums) {
    const Part part = parts[blockIdx.y];
    const unsigned int* data = reinterpret_cast<const unsigned int*>(part.data);
    const unsigned long long words = part.bytes / 4;
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long own = 0;
#pragma unroll 4
    for (unsigned long long i = first; i < words; i += stride) own += mixed(data[i], i);
    if (first == 0) {
        for (unsigned long long i = 4 * words; i < part.bytes; ++i) own += mixed(part.data[i], i);
    }
    for (int lane = 16; lane > 0; lane /= 2) own += __shfl_down_sync(0xffffffffu, own, lane);
    if (threadIdx.x % 32 == 0 && own) atomicAdd(sums + blockIdx.y, own);
}
