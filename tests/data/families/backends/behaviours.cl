#ifdef BROKEN
#error it is said to be broken
#endif
#define I (int)get_global_id(0)
kernel void doubles(global const float* x, global float* y, int n) { if (I < n) y[I] = 2.0f * x[I]; }
kernel void adds(global const float* x, global float* y, int n) { if (I < n) y[I] += x[I]; }
kernel void touches(global uchar* bytes, int place) { bytes[place] ^= 1; }
