// The known-wrong first attempt in CUDA, in shared memory: a block for each (pixel, output channel), a thread for each input
// channel, and all of them add their nine products to the one sum of the block without synchronisation. The lanes of a warp
// read the sum together, before any of them writes: of 32 additions one survives. What makes it a variant of its own is
// where the race happens: compute-sanitizer's racecheck watches shared memory.

extern "C" __global__ void add_channels(const float* input, const float* filters, const float* bias, float* output, int side,
                                        int channels) {
    __shared__ volatile float total;  // volatile: every addition reads and writes memory, as the published one did
    const int pixels = side * side;
    const int pixel = blockIdx.x;
    const int feature = blockIdx.y;
    const int y = pixel / side;
    const int x = pixel % side;

    if (threadIdx.x == 0) total = 0.0f;
    __syncthreads();
    for (int channel = threadIdx.x; channel < channels; channel += blockDim.x) {
        const float* plane = input + channel * pixels;
        const float* taps = filters + (feature * channels + channel) * 9;
        float sum = 0.0f;
        for (int dy = 0; dy < 3; ++dy) {
            for (int dx = 0; dx < 3; ++dx) {
                const int row = y + dy - 1;
                const int column = x + dx - 1;
                if (row >= 0 && row < side && column >= 0 && column < side) {
                    sum += plane[row * side + column] * taps[dy * 3 + dx];
                }
            }
        }
        total = total + sum;  // the race, and the only fault
    }
    __syncthreads();
    if (threadIdx.x == 0) output[feature * pixels + pixel] = fmaxf(total + bias[feature], 0.0f);
}
