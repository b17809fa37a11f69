// Inputs and filters staged in local memory, a few channels at a time.
//
// TILE      side of the square of outputs that a group computes
// FEATURES  output channels that a group computes
// CHANNELS  input channels staged at a time
//
// A group is TILE² × FEATURES work-items. It stages CHANNELS planes of (TILE + 2)² inputs, the padding as zeros, and
// FEATURES × CHANNELS × 9 weights; so each input is read once for FEATURES output channels, each weight once for
// TILE² pixels, and the taps need no test of their position.

#define FRAMED (TILE + 2)
#define PLANE (FRAMED * FRAMED)
#define ITEMS (TILE * TILE * FEATURES)

kernel __attribute__((reqd_work_group_size(TILE * TILE, FEATURES, 1)))
void local_memory(global const float* restrict input, global const float* restrict filters,
                  global const float* restrict bias, global float* restrict output, int side, int channels,
                  int features) {
    local float inputs[CHANNELS * PLANE];
    local float weights[FEATURES * CHANNELS * 9];

    const int tiles = (side + TILE - 1) / TILE;
    const int top = (int)get_group_id(0) / tiles * TILE;
    const int left = (int)get_group_id(0) % tiles * TILE;
    const int first_feature = get_group_id(1) * FEATURES;
    const int tile_y = (int)get_local_id(0) / TILE;
    const int tile_x = (int)get_local_id(0) % TILE;
    const int own_feature = get_local_id(1);
    const int item = own_feature * (TILE * TILE) + (int)get_local_id(0);
    const int pixels = side * side;

    float sum = 0.0f;
    for (int first = 0; first < channels; first += CHANNELS) {
        for (int i = item; i < CHANNELS * PLANE; i += ITEMS) {
            const int channel = first + i / PLANE;
            const int row = top + i % PLANE / FRAMED - 1;
            const int column = left + i % FRAMED - 1;  // FRAMED divides PLANE
            const bool inside = channel < channels && row >= 0 && row < side && column >= 0 && column < side;
            inputs[i] = inside ? input[channel * pixels + row * side + column] : 0.0f;
        }
        for (int i = item; i < FEATURES * CHANNELS * 9; i += ITEMS) {
            const int feature = first_feature + i / (CHANNELS * 9);
            const int channel = first + i % (CHANNELS * 9) / 9;
            const bool exists = feature < features && channel < channels;
            weights[i] = exists ? filters[(feature * channels + channel) * 9 + i % 9] : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);

        for (int c = 0; c < CHANNELS; ++c) {
            local const float* corner = inputs + c * PLANE + tile_y * FRAMED + tile_x;
            local const float* taps = weights + (own_feature * CHANNELS + c) * 9;
            for (int dy = 0; dy < 3; ++dy) {
                for (int dx = 0; dx < 3; ++dx) sum += corner[dy * FRAMED + dx] * taps[dy * 3 + dx];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);  // the next channels overwrite these
    }

    const int y = top + tile_y;
    const int x = left + tile_x;
    const int feature = first_feature + own_feature;
    if (y < side && x < side && feature < features) {
        output[feature * pixels + y * side + x] = fmax(sum + bias[feature], 0.0f);
    }
}
