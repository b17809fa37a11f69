"""From functions that exist already to the first checked number: `cuprof.compare` and `cuprof.kernel`."""

from cuprof.api.entry import compare
from cuprof.families.kernel import Kernel, kernel

__all__ = ["Kernel", "compare", "kernel"]
