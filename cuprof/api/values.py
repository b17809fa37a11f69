"""What arrays and numbers are, as a family describes them: shape, type, contents."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from cuprof.api.frameworks import dtype_of, home_of, is_known, to_host
from cuprof.core.errors import FamilyError
from cuprof.families import Array, Scalar


def describe(name: str, value: Any, *, is_copied: bool = False) -> Array:
    """Return shape and type of an array, or of the number that a function returned.

    Args:
        is_copied: it is copied element by element, so that any view will do.
    """
    if home_of(value) is None:
        value = np.asarray(value)
    kind = dtype_of(value)
    if not is_known(kind):
        raise FamilyError(f"{name} is of type {kind}; it must be of numbers that NumPy has, such as float32")
    if not is_copied and (isinstance(value, np.ma.MaskedArray) or "sparse" in str(getattr(value, "layout", ""))):
        raise FamilyError(
            f"{name} is masked or sparse; give its parts as arrays, and put them together in the functions"
        )
    flags = getattr(value, "flags", None)
    is_packed = value.is_contiguous() if hasattr(value, "is_contiguous") else getattr(flags, "c_contiguous", True)
    if not is_packed and not is_copied:
        raise FamilyError(f"{name} is a view with gaps or another order; make it contiguous, functions are given that")
    return Array(tuple(map(int, value.shape)), kind if kind.names else str(kind))  # type: ignore[arg-type]


def as_scalar(name: str, value: Any) -> Scalar:
    """Return a number among the arguments."""
    if isinstance(value, np.generic) and isinstance(value.item(), int | float):
        return Scalar(value.item(), value.dtype.name)
    if isinstance(value, int | float):
        return Scalar(value)
    kind = type(value).__name__
    more = "; a struct or a complex number, in an array of one" if isinstance(value, np.generic | complex) else ""
    raise FamilyError(f"input {name} is a {kind}; give arrays (NumPy, CuPy, PyTorch) and numbers{more}")


def digest_of(drawn: Mapping[str, Any]) -> str:
    """Return what tells given arrays and numbers apart."""
    digest = hashlib.sha256()
    for name, value in drawn.items():
        array = to_host(value, f"input {name}")
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
