// The fused kernel as printed in the publication: a thread outside the image leaves before the first barrier, and so
// never loads its share of the weights. Where a block has fewer pixels than channels, the others multiply with whatever
// lies in shared memory. `fused.cu` differs in this alone.
//
// input   channels × side × side
// filters filters × taps × channels, taps = filter_side × filter_side, the channels innermost
// output  filters × pixels, pixels = side × side
// Dynamic shared memory: channels × 4 bytes.

extern "C" __global__ void __launch_bounds__(BLOCK)
fused_as_printed(const float* input, const float* filters, float* output, int side, int filter_side, int channels) {
    extern __shared__ float weights[];

    const int pixels = side * side;
    const int pixel = blockIdx.x * BLOCK + threadIdx.x;
    if (pixel >= pixels) return;  // the fault: weights remain to be staged

    const int out_y = pixel / side;
    const int out_x = pixel % side;
    const int reach = (filter_side - 1) / 2;
    const int taps = filter_side * filter_side;
    const float* tap_weights = filters + (size_t)blockIdx.y * taps * channels;

    float sum = 0.0f;
    for (int tap = 0; tap < taps; ++tap, tap_weights += channels) {
        for (int c = threadIdx.x; c < channels; c += BLOCK) weights[c] = __ldg(tap_weights + c);
        __syncthreads();

        const int y = out_y + tap / filter_side - reach;
        const int x = out_x + tap % filter_side - reach;
        if (y >= 0 && y < side && x >= 0 && x < side) {
            const float* value = input + y * side + x;
            for (int c = 0; c < channels; ++c, value += pixels) sum += *value * weights[c];
        }
        __syncthreads();  // the next tap overwrites the weights
    }
    output[(size_t)blockIdx.y * pixels + pixel] = sum;
}

// Fill the shared memory of every multiprocessor. What a kernel finds there is left by the one before it: after the
// right version of the same convolution it could be the very weights that are missing.
extern "C" __global__ void __launch_bounds__(BLOCK)
occupy_shared(int words) {
    extern __shared__ float weights[];
    volatile float* left = weights;
    for (int i = threadIdx.x; i < words; i += BLOCK) left[i] = 1e30f;
}
