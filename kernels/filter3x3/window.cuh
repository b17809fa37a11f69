// What the kernels of the family share: a 3x3 window that walks along a row, and the store of a thread's run of results.
//
// CF       results a thread computes, horizontally adjacent (the coarsening factor)
// VECTOR   1: results leave in vector stores of 2 bytes (CF = 2) or 4; 0: one byte a store
// PARTIAL  1: the image's side is no multiple of CF, so the last run of a row is shorter
//
// Neighbours outside the image are replaced by the nearest pixel inside it. So every warp, at the border too, executes
// the same loads and stores, and the number of executed instructions is a plain product; the results on the one-pixel
// border of the output that come of it belong to nobody.

#pragma once

// The three rows around row y, and the image's side.
struct Rows {
    const unsigned char* above;
    const unsigned char* at;
    const unsigned char* below;
};

__device__ __forceinline__ Rows rows_around(const unsigned char* image, int y, int size) {
    return {image + max(y - 1, 0) * size, image + y * size, image + min(y + 1, size - 1) * size};
}

// Column x + offset, moved into the image where that can be needed: left of the run, right of it, or in a partial run.
__device__ __forceinline__ int column_in_image(int x, int offset, int size) {
    if (offset < 0) return max(x + offset, 0);
    if (offset == CF || PARTIAL) return min(x + offset, size - 1);
    return x + offset;
}

struct Window {
    int pixels[3][3];

    __device__ __forceinline__ void load(int column, const Rows& rows, int x) {
        pixels[0][column] = rows.above[x];
        pixels[1][column] = rows.at[x];
        pixels[2][column] = rows.below[x];
    }

    __device__ __forceinline__ void shift_left() {
#pragma unroll
        for (int row = 0; row < 3; ++row) {
            pixels[row][0] = pixels[row][1];
            pixels[row][1] = pixels[row][2];
        }
    }

    // The weighted sum over 16, truncated.
    __device__ __forceinline__ unsigned char apply(const int (&weights)[9]) const {
        int sum = 0;
#pragma unroll
        for (int tap = 0; tap < 9; ++tap) sum += pixels[tap / 3][tap % 3] * weights[tap];
        return static_cast<unsigned char>(static_cast<unsigned int>(sum) / 16u);
    }
};

// Writes the run of results that starts at column x of a row of the output.
__device__ __forceinline__ void store_run(unsigned char* row, int x, int size, const unsigned char (&results)[CF]) {
#if VECTOR && CF == 2
    *reinterpret_cast<uchar2*>(row + x) = make_uchar2(results[0], results[1]);
#elif VECTOR
#pragma unroll
    for (int i = 0; i < CF; i += 4) {
        if (PARTIAL && x + i >= size) break;  // vector stores are only used where 4 divides the side
        *reinterpret_cast<uchar4*>(row + x + i) =
            make_uchar4(results[i], results[i + 1], results[i + 2], results[i + 3]);
    }
#else
#pragma unroll
    for (int i = 0; i < CF; ++i) {
        if (PARTIAL && x + i >= size) break;
        row[x + i] = results[i];
    }
#endif
}
