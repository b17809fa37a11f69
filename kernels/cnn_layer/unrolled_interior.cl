// The published unrolling: nine taps written out, for the interior alone. Nothing handles the padding, so the outputs on
// the border of each plane are never written.

kernel void unrolled_interior(global const float* restrict input, global const float* restrict filters,
                              global const float* restrict bias, global float* restrict output, int side, int channels,
                              int features) {
    const int pixel = get_global_id(0);
    const int feature = get_global_id(1);
    const int pixels = side * side;
    if (pixel >= pixels || feature >= features) return;

    const int y = pixel / side;
    const int x = pixel % side;
    if (y == 0 || y == side - 1 || x == 0 || x == side - 1) return;  // the fault

    global const float* at = input + pixel;
    global const float* taps = filters + feature * channels * 9;
    float sum = bias[feature];
    for (int channel = 0; channel < channels; ++channel, at += pixels, taps += 9) {
        sum += at[-side - 1] * taps[0];
        sum += at[-side] * taps[1];
        sum += at[-side + 1] * taps[2];
        sum += at[-1] * taps[3];
        sum += at[0] * taps[4];
        sum += at[1] * taps[5];
        sum += at[side - 1] * taps[6];
        sum += at[side] * taps[7];
        sum += at[side + 1] * taps[8];
    }
    output[feature * pixels + pixel] = fmax(sum, 0.0f);
}
