// The nine taps written out. That needs the padding out of the way: a first kernel copies the input into planes with a
// frame of zeros, so that the second one has neither loops over taps nor tests of their position.

kernel void pad(global const float* restrict input, global float* restrict padded, int side, int channels) {
    const int framed = side + 2;
    const int at = get_global_id(0);
    const int channel = get_global_id(1);
    if (at >= framed * framed || channel >= channels) return;
    const int row = at / framed - 1;
    const int column = at % framed - 1;
    const bool inside = row >= 0 && row < side && column >= 0 && column < side;
    padded[channel * framed * framed + at] = inside ? input[channel * side * side + row * side + column] : 0.0f;
}

kernel void unrolled(global const float* restrict padded, global const float* restrict filters,
                     global const float* restrict bias, global float* restrict output, int side, int channels,
                     int features) {
    const int pixel = get_global_id(0);
    const int feature = get_global_id(1);
    const int pixels = side * side;
    if (pixel >= pixels || feature >= features) return;

    const int framed = side + 2;
    const int plane = framed * framed;
    global const float* above = padded + pixel / side * framed + pixel % side;
    global const float* taps = filters + feature * channels * 9;
    float sum = bias[feature];
    for (int channel = 0; channel < channels; ++channel, above += plane, taps += 9) {
        global const float* at = above + framed;
        global const float* below = at + framed;
        sum += above[0] * taps[0];
        sum += above[1] * taps[1];
        sum += above[2] * taps[2];
        sum += at[0] * taps[3];
        sum += at[1] * taps[4];
        sum += at[2] * taps[5];
        sum += below[0] * taps[6];
        sum += below[1] * taps[7];
        sum += below[2] * taps[8];
    }
    output[feature * pixels + pixel] = fmax(sum, 0.0f);
}
