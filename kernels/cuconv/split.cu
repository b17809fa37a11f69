// Two kernels. Block (x, m, tap) of scalar_prods multiplies the input with one tap of filter m, a thread a pixel, and
// leaves a partial result; sum_taps adds the partial results of each pixel. See "cuConv: A CUDA Implementation of
// Convolution for CNN Inference", arXiv 2103.16234.
//
// input   channels × side × side
// filters filters × taps × channels, taps = filter_side × filter_side, the channels innermost
// partial filters × taps × pixels, pixels = side × side
//
// Offsets that grow with the number of filters or channels are 64-bit; a pixel's index fits 32 bits (side ≤ 2048).

extern "C" __global__ void __launch_bounds__(BLOCK)
scalar_prods(const float* input, const float* filters, float* partial, int side, int filter_side, int channels) {
    const int pixels = side * side;
    const int pixel = blockIdx.x * BLOCK + threadIdx.x;
    if (pixel >= pixels) return;  // no barrier follows

    const int tap = blockIdx.z;
    const int reach = (filter_side - 1) / 2;
    const int y = pixel / side + tap / filter_side - reach;
    const int x = pixel % side + tap % filter_side - reach;
    const size_t row = (size_t)blockIdx.y * gridDim.z + tap;  // filter and tap as one index

    float sum = 0.0f;  // what a tap in the padding contributes
    if (y >= 0 && y < side && x >= 0 && x < side) {
        const float* value = input + y * side + x;
        const float* weight = filters + row * channels;
        for (int c = 0; c < channels; ++c, value += pixels) sum += *value * weight[c];
    }
    partial[row * pixels + pixel] = sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
sum_taps(const float* partial, float* output, int pixels, int taps) {
    const int pixel = blockIdx.x * BLOCK + threadIdx.x;
    if (pixel >= pixels) return;

    const float* part = partial + (size_t)blockIdx.y * taps * pixels + pixel;
    float sum = 0.0f;
    for (int tap = 0; tap < taps; ++tap, part += pixels) sum += *part;
    output[(size_t)blockIdx.y * pixels + pixel] = sum;
}
