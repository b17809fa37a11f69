// The framework's own kernels: they prepare a timed execution and are never part of it.

// Reads `count` 16-byte words, so that what the caches held before is evicted and every line left behind is clean.
// The sum is written only if it has one particular value, which keeps the loads alive and writes nothing.
kernel void read_through(global const uint4* restrict data, uint count, global uint* sink) {
    const uint stride = get_global_size(0);
    uint4 sum = (uint4)(0);
    for (uint i = get_global_id(0); i < count; i += stride) sum += data[i];
    if (sum.x + sum.y + sum.z + sum.w == 0x9E3779B9u) *sink = sum.x;
}

kernel void empty(global uint* sink) {
    if (get_global_id(0) > 0) *sink = 0;
}
