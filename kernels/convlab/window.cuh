// The filter, shared by every kernel of the family.
//
// FILTER        side of the filter
// FILTER_SPACE  __device__ (global memory) or __constant__
// Images are three planes of side × side; at the largest side, 8192, every index fits 32 bits.

#pragma once

extern "C" {
FILTER_SPACE float taps[3][FILTER][FILTER];
}
