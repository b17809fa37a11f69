"""Compiling: one pool of compiler processes and one cache for NVRTC, nvcc, host compilers and Triton."""

from cuprof.builds.pool import BuildPool
from cuprof.builds.result import Build, Built

__all__ = ["Build", "BuildPool", "Built"]
