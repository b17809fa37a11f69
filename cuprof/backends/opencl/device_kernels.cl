// The framework's own kernels: they prepare a timed execution and are never part of it.
//
// The readers read `count` words, so that what the caches held before is evicted and every line left behind is clean.
// They write only if the sum has one particular value, which keeps the loads alive and writes nothing.

// For GPUs: neighbouring work-items read neighbouring words of 16 bytes.
kernel void read_together(global const uint4* restrict data, uint count, global uint* sink) {
    const uint stride = get_global_size(0);
    uint i = get_global_id(0);
    uint4 sum = (uint4)(0);
    for (; i + 3 * stride < count; i += 4 * stride) {
        const uint4 a = data[i], b = data[i + stride], c = data[i + 2 * stride], d = data[i + 3 * stride];
        sum += (a ^ b) + (c ^ d);
    }
    for (; i < count; i += stride) sum += data[i];
    if (sum.x + sum.y + sum.z + sum.w == 0x9E3779B9u) *sink = sum.x;
}

// For CPUs: each work-item reads a part of its own, in words of 64 bytes.
kernel void read_apart(global const uint16* restrict data, uint count, global uint* sink) {
    const uint share = (count + (uint)get_global_size(0) - 1) / (uint)get_global_size(0);
    const uint first = (uint)get_global_id(0) * share;
    const uint end = min(first + share, count);
    uint16 sum = (uint16)(0);
    for (uint i = first; i < end; ++i) sum += data[i];
    const uint8 half_sum = sum.lo + sum.hi;
    const uint4 quarter = half_sum.lo + half_sum.hi;
    if (quarter.x + quarter.y + quarter.z + quarter.w == 0x9E3779B9u) *sink = quarter.x;
}

kernel void empty(global uint* sink) {
    if (get_global_id(0) > 0) *sink = 0;
}
