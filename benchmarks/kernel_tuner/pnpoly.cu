// Crossing numbers of a ray to the right, tile_size points a thread.
constexpr int CORNERS = 600;
__constant__ float2 constant_corners[CORNERS];
__constant__ float constant_slopes[CORNERS];

__device__ __forceinline__ bool lies_between(float a, float b, float c)
{
#if between_method == 0
    return (b > a) != (c > a);
#elif between_method == 1
    return ((b <= a) && (c > a)) || ((b > a) && (c <= a));
#elif between_method == 2
    return a - b == 0.0f || (a - b) * (a - c) < 0.0f;
#else
    return (a - b) * (a - c) < 0.0f || a - b == 0.0f;
#endif
}

extern "C" __global__ void pnpoly(int *inside, const float2 *points, int n)
{
    const int first = blockIdx.x * block_size_x * tile_size + threadIdx.x;
    int crossings[tile_size] = {};
    float2 mine[tile_size];
    for (int t = 0; t < tile_size; t++) {
        const int i = first + t * block_size_x;
        mine[t] = i < n ? points[i] : float2{0, 0};
    }
    for (int j = 0, k = CORNERS - 1; j < CORNERS; k = j++) {
        const float2 from = constant_corners[j], to = constant_corners[k];
#if use_precomputed_slopes
        const float slope = constant_slopes[j];
#else
        const float slope = (to.x - from.x) / (to.y - from.y);
#endif
#pragma unroll
        for (int t = 0; t < tile_size; t++) {
            const bool between = lies_between(mine[t].y, from.y, to.y);
            const bool left = mine[t].x < slope * (mine[t].y - from.y) + from.x;
#if use_method == 0
            if (between && left) crossings[t] = !crossings[t];
#else
            crossings[t] += between && left;
#endif
        }
    }
    for (int t = 0; t < tile_size; t++)
        if (first + t * block_size_x < n) inside[first + t * block_size_x] = crossings[t] & 1;
}
