"""From functions that exist already to the first checked number: `cuprof.compare` and `cuprof.kernel`."""

from cuprof.front.entry import compare
from cuprof.front.kernels import Kernel, kernel

__all__ = ["Kernel", "compare", "kernel"]
