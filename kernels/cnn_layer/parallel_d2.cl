// The fix: one work-item an element of the output, which adds up all input channels itself. The zero padding is a test
// of each tap's position.

kernel void parallel_d2(global const float* restrict input, global const float* restrict filters,
                        global const float* restrict bias, global float* restrict output, int side, int channels,
                        int features) {
    const int pixel = get_global_id(0);
    const int feature = get_global_id(1);
    const int pixels = side * side;
    if (pixel >= pixels || feature >= features) return;

    const int y = pixel / side;
    const int x = pixel % side;
    global const float* taps = filters + feature * channels * 9;
    float sum = bias[feature];
    for (int channel = 0; channel < channels; ++channel) {
        global const float* plane = input + channel * pixels;
        for (int dy = 0; dy < 3; ++dy) {
            for (int dx = 0; dx < 3; ++dx) {
                const int row = y + dy - 1;
                const int column = x + dx - 1;
                if (row >= 0 && row < side && column >= 0 && column < side) {
                    sum += plane[row * side + column] * taps[channel * 9 + dy * 3 + dx];
                }
            }
        }
    }
    output[feature * pixels + pixel] = fmax(sum, 0.0f);
}
