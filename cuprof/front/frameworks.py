"""Arrays of NumPy, CuPy, PyTorch and Numba: whose they are, on the host, and as views of a session's arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuprof.errors import FamilyError


@dataclass(frozen=True)
class Home:
    """One library's arrays in one memory.

    Args:
        backend: whose session holds such arrays: "cpu" NumPy arrays, "cuda" CuPy arrays.
        view: a session's array → the library's on the same memory.
        host: the library's array → a NumPy array.
        bring: a NumPy array → the library's.
        copy: what the library returned → into a session's output.
    """

    name: str
    backend: str
    view: Callable[[Any], Any]
    host: Callable[[Any], np.ndarray]
    bring: Callable[[np.ndarray], Any]
    copy: Callable[[Any, Any], object]


def _torch_view(array: Any) -> Any:
    return importlib.import_module("torch").from_dlpack(array)


def _torch_bring(array: np.ndarray) -> Any:
    return importlib.import_module("torch").from_numpy(np.array(array)).cuda()


def _cupy(array: Any) -> Any:
    return importlib.import_module("cupy").asarray(array)


def _same(array: Any) -> Any:
    return array


def _write(result: Any, output: Any) -> None:
    output[...] = result


HOMES = {
    "numpy": Home("numpy", "cpu", _same, np.asarray, _same, _write),
    "torch on the host": Home(
        "torch on the host",
        "cpu",
        lambda array: importlib.import_module("torch").from_numpy(array),
        lambda tensor: tensor.detach().numpy(),
        lambda array: importlib.import_module("torch").from_numpy(np.array(array)),
        lambda result, output: _write(result.detach().numpy(), output),
    ),
    "torch": Home(
        "torch",
        "cuda",
        _torch_view,
        lambda tensor: tensor.detach().cpu().numpy(),
        _torch_bring,
        lambda result, output: _torch_view(output).copy_(result),
    ),
    "cupy": Home("cupy", "cuda", _same, lambda array: _cupy(array).get(), _cupy, lambda r, o: _write(_cupy(r), o)),
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
    except TypeError as error:  # bfloat16 in PyTorch
        raise FamilyError(f"{what} is a {type(value).__name__} that cannot be brought to NumPy: {error}") from None
    if array.dtype.kind not in "biufc":
        raise FamilyError(f"{what} is a {type(value).__name__}; it must be an array or a number")
    return array if array.flags.owndata else array.copy()  # memory of others cannot be kept from being written to


def widen(array: np.ndarray) -> np.ndarray:
    """Return floating-point numbers as float64 or complex128, anything else as it is."""
    wide = {"f": np.float64, "c": np.complex128}.get(array.dtype.kind)
    return array if wide is None else array.astype(wide)
