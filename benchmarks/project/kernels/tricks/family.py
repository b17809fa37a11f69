"""Variants that try to be told faster than they are, and honest ones that look like them.

What each one does is its docstring's first line; what ought to come of it stands in `benchmarks/trick_records.py`.
None of them harms more than the worker process that it runs in, and what runs on beside that ends within seconds.
"""

from . import (  # noqa: F401 - each registers its variants
    device_further,
    device_honest,
    device_left,
    device_memory,
    device_streams,
    device_time,
    host_deferred,
    host_exchanged,
    host_further,
    host_honest,
    host_inside,
    host_left,
    host_memory,
    host_reaching,
    host_time,
    host_unseen,
    opencl,
    sources,
)
from .problem import family

__all__ = ["family"]
