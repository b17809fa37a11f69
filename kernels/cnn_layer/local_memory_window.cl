// Local memory as published: each work-item stages what its own pixel needs, the 3 × 3 × CHANNELS window and the weights
// of its output channel, waits at a barrier and multiplies.
//
// All work-items of a group stage into the same places. So the result is right only with one work-item a group; in a
// larger one, windows and weights overwrite each other.
//
// CHANNELS  input channels, since local arrays need constant sizes

#define PRODUCTS (CHANNELS * 9)

kernel void local_memory_window(global const float* restrict input, global const float* restrict filters,
                                global const float* restrict bias, global float* restrict output, int side,
                                int features) {
    local float window[PRODUCTS];
    local float weights[PRODUCTS];

    const int pixel = get_global_id(0);
    const int feature = get_global_id(1);
    const int pixels = side * side;
    const bool works = pixel < pixels && feature < features;  // the others still meet the barrier

    if (works) {
        const int y = pixel / side;
        const int x = pixel % side;
        for (int i = 0; i < PRODUCTS; ++i) {
            const int row = y + i % 9 / 3 - 1;
            const int column = x + i % 3 - 1;
            const bool inside = row >= 0 && row < side && column >= 0 && column < side;
            window[i] = inside ? input[i / 9 * pixels + row * side + column] : 0.0f;
            weights[i] = filters[feature * PRODUCTS + i];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!works) return;

    float sum = bias[feature];
    for (int i = 0; i < PRODUCTS; ++i) sum += window[i] * weights[i];
    output[feature * pixels + pixel] = fmax(sum, 0.0f);
}
