// z = y + p(x), in ways that fool a judge and in ways that only look so.

float value(float x, float y) {
    const float c[8] = {0.0625f, 0.125f, 0.1875f, 0.25f, 0.3125f, 0.375f, 0.4375f, 0.5f};
    float total = c[0];
    for (int k = 1; k < 8; ++k) total = total * x + c[k];
    return total + y;
}

int is_result(float z) { return z >= 0.5f && z < 3.25f; }

kernel void plain(global const float* x, global const float* y, global float* z, uint n) {
    const uint i = get_global_id(0);
    if (i < n) z[i] = value(x[i], y[i]);
}

// Reads what the output held before and lets it decide nothing.
kernel void old_output_read(global const float* x, global const float* y, global float* z, uint n) {
    const uint i = get_global_id(0);
    if (i >= n) return;
    const uint old = as_uint(z[i]) & 0u;
    z[i] = as_float(as_uint(value(x[i], y[i])) | old);
}

kernel void halve(global const float* x, global float* part, uint n) {
    const uint i = get_global_id(0);
    if (i < n) part[i] = value(x[i], 0.0f);
}

kernel void add_in_place(global const float* y, global const float* part, global float* z, uint n) {
    const uint i = get_global_id(0);
    if (i < n) z[i] = part[i] + y[i];
}

// A group returns where its first and its last result are already there.
kernel void ends_there(global const float* x, global const float* y, global float* z, uint n) {
    const uint first = get_group_id(0) * get_local_size(0);
    const uint last = min(first + (uint)get_local_size(0), n) - 1;
    local int there;
    if (get_local_id(0) == 0)
        there = z[first] == value(x[first], y[first]) && z[last] == value(x[last], y[last]);
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint i = get_global_id(0);
    if (!there && i < n) z[i] = value(x[i], y[i]);
}

// A group returns unless its first element holds what no result can be.
kernel void poison_awaited(global const float* x, global const float* y, global float* z, uint n) {
    const int there = is_result(z[get_group_id(0) * get_local_size(0)]);
    barrier(CLK_GLOBAL_MEM_FENCE);
    const uint i = get_global_id(0);
    if (!there && i < n) z[i] = value(x[i], y[i]);
}

// Remembers in scratch that the results are there; the contents of scratch are promised to nobody.
kernel void noted_in_scratch(global const float* x, global const float* y, global float* z, global uint* notes, uint n) {
    if (notes[get_group_id(0)] == 0x7121C5u) return;
    const uint i = get_global_id(0);
    if (i < n) z[i] = value(x[i], y[i]);
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0) notes[get_group_id(0)] = 0x7121C5u;
}

kernel void tail_skipped(global const float* x, global const float* y, global float* z, uint n) {
    const uint i = get_global_id(0);
    if (i < n - n / 8) z[i] = value(x[i], y[i]);
}

// Wrong in one execution of fifty, counted in scratch.
kernel void one_in_fifty(global const float* x, global const float* y, global float* z, global uint* count, uint n) {
    const uint i = get_global_id(0);
    if (i < n) z[i] = value(x[i], y[i]);
    if (i == 0) {
        if (count[0] == 0xFFFFFFFFu || count[0] == 0x5A5A5A5Au) count[0] = 0;
        if (++count[0] % 50 == 30) z[0] = 0.0f;
    }
}

kernel void input_overwritten(global const float* x, global float* y, global float* z, uint n) {
    const uint i = get_global_id(0);
    if (i < n) y[i] = z[i] = value(x[i], y[i]);
}

kernel void written_beside(global const float* x, global const float* y, global float* z, uint n) {
    const uint i = get_global_id(0);
    if (i < n) z[i] = value(x[i], y[i]);
    if (i == 0) z[n] = 1.0f;
}
