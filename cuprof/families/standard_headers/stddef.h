// NVRTC knows size_t by itself.
#pragma once
typedef decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr)) ptrdiff_t;
#ifndef NULL
#define NULL 0
#endif
