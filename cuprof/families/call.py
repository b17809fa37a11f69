"""A function that returns its results in arrays of its own, as variants of libraries and of the host may be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

OWN_CLASSES = ("builtins", "cupy", "jaxlib", "numba", "numpy", "torch")
"""Packages whose classes results may have. A class of the variant's own could compute untimed, when it is copied."""


class Call:
    """A timed call, and an untimed one that copies its results to the outputs.

    Args:
        run: computes and returns the results; this is timed.
        put: copies the last results of `run` into the outputs; untimed, and called before each comparison.
    """

    def __init__(self, run: Callable[[], object], put: Callable[[object], None]) -> None:
        self._run, self._put = run, put
        self._returned: object = None

    def __call__(self) -> None:
        self._returned = self._run()

    def deliver(self) -> None:
        """Copy the last execution's result into the outputs.

        Raises:
            TypeError: a result has a class of another package, which may do its work only now.
        """
        found = self._returned
        is_plain_sequence = isinstance(found, tuple | list) and type(found).__iter__ in (tuple.__iter__, list.__iter__)
        parts: Any = found.values() if type(found) is dict else found if is_plain_sequence else [found]
        for each in parts:
            if not _is_plain(each):
                raise TypeError(
                    f"it returned a {type(each).__name__}, whose class may compute when it is copied, which is not "
                    "timed; return arrays of NumPy, CuPy, PyTorch or JAX, or a dict or tuple of them"
                )
        self._put(found)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    module = sys.modules.get(kind.__module__)
    return kind.__module__.partition(".")[0] in OWN_CLASSES and getattr(module, kind.__name__, kind) is kind
