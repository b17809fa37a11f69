// NVRTC has assert, where CUDA's runtime headers are installed or not, as a call that it knows by itself.
#pragma once
#ifndef assert
#define assert(condition) ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, sizeof(char)))
extern "C" __device__ void __assertfail(const char*, const char*, unsigned int, const char*, size_t);
#endif
