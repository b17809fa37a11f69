// A group stages everything it needs at once, all channels of the whole image and all weights of its one output channel.
// It pays for staging the same image in every group, and the local memory it takes leaves room for few groups.
//
// SIDE, CHANNELS  the problem, since local arrays need constant sizes
// GROUP           work-items a group

#define PIXELS (SIDE * SIDE)

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void local_memory_at_once(global const float* restrict input, global const float* restrict filters,
                          global const float* restrict bias, global float* restrict output) {
    local float inputs[CHANNELS * PIXELS];
    local float weights[CHANNELS * 9];

    const int item = get_local_id(0);
    const int feature = get_group_id(0);
    for (int i = item; i < CHANNELS * PIXELS; i += GROUP) inputs[i] = input[i];
    for (int i = item; i < CHANNELS * 9; i += GROUP) weights[i] = filters[feature * CHANNELS * 9 + i];
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int pixel = item; pixel < PIXELS; pixel += GROUP) {
        const int y = pixel / SIDE;
        const int x = pixel % SIDE;
        float sum = bias[feature];
        for (int channel = 0; channel < CHANNELS; ++channel) {
            for (int dy = 0; dy < 3; ++dy) {
                for (int dx = 0; dx < 3; ++dx) {
                    const int row = y + dy - 1;
                    const int column = x + dx - 1;
                    if (row >= 0 && row < SIDE && column >= 0 && column < SIDE) {
                        sum += inputs[channel * PIXELS + row * SIDE + column] * weights[channel * 9 + dy * 3 + dx];
                    }
                }
            }
        }
        output[feature * PIXELS + pixel] = fmax(sum, 0.0f);
    }
}
