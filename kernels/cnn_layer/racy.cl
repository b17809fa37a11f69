// The known-wrong first attempt: one work-item for each (input channel, pixel, output channel), all of which add their
// nine products to the same element of the output without synchronisation. Of additions that meet, one survives.
//
// On a GPU the work-items of a warp read the element together, before any of them writes. A CPU runs work-items one after
// another and hides the race most of the time; the barrier between reading and writing makes every device show it.

kernel void add_channel(global const float* input, global const float* filters, global float* output, int side,
                        int channels, int features) {
    const int channel = get_global_id(0);
    const int pixel = get_global_id(1);
    const int feature = get_global_id(2);
    const int pixels = side * side;
    const bool works = channel < channels && pixel < pixels && feature < features;

    float before = 0.0f;
    float sum = 0.0f;
    if (works) {
        before = output[feature * pixels + pixel];
        const int y = pixel / side;
        const int x = pixel % side;
        global const float* plane = input + channel * pixels;
        global const float* taps = filters + (feature * channels + channel) * 9;
        for (int dy = 0; dy < 3; ++dy) {
            for (int dx = 0; dx < 3; ++dx) {
                const int row = y + dy - 1;
                const int column = x + dx - 1;
                if (row >= 0 && row < side && column >= 0 && column < side) {
                    sum += plane[row * side + column] * taps[dy * 3 + dx];
                }
            }
        }
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (works) output[feature * pixels + pixel] = before + sum;
}

// Bias and ReLU, once all channels have been added.
kernel void finish(global const float* bias, global float* output, int pixels, int features) {
    const int pixel = get_global_id(0);
    const int feature = get_global_id(1);
    if (pixel >= pixels || feature >= features) return;
    global float* element = output + feature * pixels + pixel;
    *element = fmax(*element + bias[feature], 0.0f);
}
