#ifdef BROKEN
#error it is said to be broken
#endif
#define I (int)(blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void doubles(const float* x, float* y, int n) { if (I < n) y[I] = 2.0f * x[I]; }
extern "C" __global__ void adds(const float* x, float* y, int n) { if (I < n) y[I] += x[I]; }
extern "C" __global__ void touches(unsigned char* bytes, int place) { bytes[place] ^= 1; }
