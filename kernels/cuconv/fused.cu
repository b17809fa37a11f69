// One kernel instead of two: block (x, m) walks all taps of filter m and keeps each thread's sum in a register, so that
// no partial result travels through memory. A tap's weights are shared by the block, through shared memory.
//
// input   channels × side × side
// filters filters × taps × channels, taps = filter_side × filter_side, the channels innermost
// output  filters × pixels, pixels = side × side
// Dynamic shared memory: channels × 4 bytes.

extern "C" __global__ void __launch_bounds__(BLOCK)
fused(const float* input, const float* filters, float* output, int side, int filter_side, int channels) {
    extern __shared__ float weights[];

    const int pixels = side * side;
    const int pixel = blockIdx.x * BLOCK + threadIdx.x;
    const bool in_image = pixel < pixels;  // a thread outside still loads weights and meets the barriers
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
        if (in_image && y >= 0 && y < side && x >= 0 && x < side) {
            const float* value = input + y * side + x;
            int c = 0;
            for (; c + 4 <= channels; c += 4) {
#pragma unroll
                for (int k = 0; k < 4; ++k, value += pixels) sum += *value * weights[c + k];
            }
#pragma unroll 1  // left to itself, the compiler reads the last weights as one word that ends beyond them
            for (; c < channels; ++c, value += pixels) sum += *value * weights[c];
        }
        __syncthreads();  // the next tap overwrites the weights
    }
    if (in_image) output[(size_t)blockIdx.y * pixels + pixel] = sum;
}
