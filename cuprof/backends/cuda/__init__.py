"""CUDA: NVRTC, the driver API for launches and events, CuPy for arrays and libraries."""
