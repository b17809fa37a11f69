"""Arrays of NumPy, CuPy, PyTorch and Numba: whose they are, on the host, and as views of a session's arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuprof.core.errors import FamilyError
from cuprof.families.program import is_extended, read_dtype
from cuprof.interop.tensors import as_tensor, to_device


@dataclass(frozen=True)
class Home:
    """One library's arrays in one memory.

    Args:
        backend: whose session holds such arrays: "cpu" NumPy arrays, "cuda" CuPy arrays.
        view: a session's array and its elements' type → the library's on the same memory.
        host: the library's array → a NumPy array.
        bring: a NumPy array → the library's.
        copy: what the library returned → into a session's output, of that type.
    """

    name: str
    backend: str
    view: Callable[[Any, np.dtype], Any]
    host: Callable[[Any], np.ndarray]
    bring: Callable[[np.ndarray], Any]
    copy: Callable[[Any, Any, np.dtype], object]


def _torch_host(tensor: Any) -> np.ndarray:
    torch, kind, tensor = importlib.import_module("torch"), dtype_of(tensor), tensor.detach().cpu()
    if is_extended(kind):
        tensor = tensor.view({1: torch.int8, 2: torch.int16}[kind.itemsize])
    return np.asarray(tensor.numpy()).view(kind)


def _cupy(array: Any) -> Any:
    return importlib.import_module("cupy").asarray(array)


def _same(array: Any, kind: np.dtype | None = None) -> Any:
    return array


def _write(result: Any, output: Any, kind: np.dtype) -> None:
    output[...] = result


HOMES = {
    "numpy": Home("numpy", "cpu", _same, np.asarray, _same, _write),
    "torch on the host": Home(
        "torch on the host",
        "cpu",
        as_tensor,
        _torch_host,
        lambda array: as_tensor(np.array(array), array.dtype),
        lambda result, output, kind: _write(_torch_host(result), output, kind),
    ),
    "torch": Home(
        "torch",
        "cuda",
        as_tensor,
        _torch_host,
        lambda array: to_device(array, array.dtype),
        lambda result, output, kind: as_tensor(output, kind).copy_(result),
    ),
    "cupy": Home(
        "cupy", "cuda", _same, lambda array: _cupy(array).get(), _cupy, lambda r, o, kind: _write(_cupy(r), o, kind)
    ),
}
"""By name. Numba's device arrays are CuPy's: each reads the other's memory by `__cuda_array_interface__`."""


def home_of(value: Any) -> Home | None:
    """Return whose array a value is; None for what is no array."""
    if isinstance(value, np.ndarray):
        return HOMES["numpy"]
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr"):
        return HOMES["torch" if value.is_cuda else "torch on the host"]
    return HOMES["cupy"] if hasattr(value, "__cuda_array_interface__") else None


def to_host(value: Any, what: str) -> np.ndarray:
    """Return any array or number as a NumPy array.

    Raises:
        FamilyError: it is none, or of a type that NumPy lacks.
    """
    home = home_of(value)
    try:
        array = np.asarray(home.host(value) if home else value)
    except TypeError as error:
        raise FamilyError(f"{what} is a {type(value).__name__} that cannot be brought to NumPy: {error}") from None
    if not is_known(array.dtype):
        raise FamilyError(f"{what} is a {type(value).__name__}; it must be an array or a number")
    return array if array.flags.owndata else array.copy()  # memory of others cannot be kept from being written to


def widen(array: np.ndarray) -> np.ndarray:
    """Return floating-point numbers as float64 or complex128, anything else as it is."""
    wide = {"f": np.float64, "c": np.complex128, "V": np.float64}.get(array.dtype.kind)
    return array if wide is None or array.dtype.names else array.astype(wide)


def is_floating(array: np.ndarray) -> bool:
    """Return whether elements may be NaN."""
    return array.dtype.kind in "fcV" and not array.dtype.names


def dtype_of(value: Any) -> np.dtype:
    """Return the type of an array's elements; of PyTorch's, that of the same name.

    Raises:
        FamilyError: neither NumPy nor ml_dtypes has such a type.
    """
    kind = value.dtype
    return kind if isinstance(kind, np.dtype) else read_dtype(str(kind).removeprefix("torch."))


def is_known(kind: np.dtype) -> bool:
    """Return whether results of a type can be compared: numbers, of ml_dtypes too, and structs."""
    return kind.kind in "biufc" or is_extended(kind) or bool(kind.names)
