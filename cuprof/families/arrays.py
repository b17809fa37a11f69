"""Arrays of NumPy, CuPy, PyTorch, JAX and Numba: recognise them, copy them, and view a session's arrays as theirs."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from cuprof.core.errors import FamilyError
from cuprof.families.model import Arrays, Scalar
from cuprof.families.program import Array, is_extended, read_dtype

BITS = {2: "int16", 1: "uint8"}
"""Bytes of a type that NumPy and CuPy lack → the integer type that carries its bits, there and in PyTorch."""
MOST_BLOCKS = 2**16
"""Larger arrays are permuted in this many blocks: moving ten million single numbers takes some tenths of a second."""


class Home:
    """One library's arrays in one memory; this one is NumPy's.

    Attributes:
        backend: the back end whose session holds such arrays: "cpu" NumPy arrays, "cuda" CuPy arrays.
        is_apart: the library works on a stream of its own and writes to no array of ours. Its functions get new views
            at each execution, and `finish` orders their work before ours.
    """

    is_apart = False

    def __init__(self, name: str, backend: str) -> None:
        self.name, self.backend = name, backend

    def host(self, array: Any) -> np.ndarray:
        """Return the library's array as a NumPy array."""
        return np.asarray(array)

    def view(self, array: Any, kind: np.dtype) -> Any:
        """Return a session's array, with elements of this type, as the library's on the same memory."""
        return array

    def bring(self, array: Any) -> Any:
        """Return a NumPy array, or an array of the library's own, as the library's."""
        return array

    def copy(self, result: Any, output: Any, kind: np.dtype) -> None:
        """Copy the library's result into a session's output, with elements of this type."""
        output[...] = self.bring(result)

    def finish(self, returned: Any) -> Any:
        """Return a function's result once the session's own stream waits for it."""
        return returned

    def wide(self) -> AbstractContextManager[Any]:
        """Let the library compute in float64."""
        return nullcontext()


class _Cupy(Home):
    def host(self, array: Any) -> np.ndarray:
        return np.asarray(self.bring(array).get())

    def bring(self, array: Any) -> Any:
        return importlib.import_module("cupy").asarray(array)


class _Torch(Home):
    def host(self, array: Any) -> np.ndarray:
        torch, kind, tensor = importlib.import_module("torch"), dtype_of(array), array.detach().cpu()
        if is_extended(kind):
            tensor = tensor.view(getattr(torch, BITS[kind.itemsize]))
        return np.asarray(tensor.numpy()).view(kind)

    def view(self, array: Any, kind: np.dtype) -> Any:
        torch, is_foreign = importlib.import_module("torch"), is_extended(kind)
        seen = array.view(BITS[kind.itemsize]) if is_foreign else array
        tensor = torch.from_numpy(seen) if isinstance(seen, np.ndarray) else torch.from_dlpack(seen)
        return tensor.view(getattr(torch, kind.name)) if is_foreign else tensor

    def bring(self, array: np.ndarray) -> Any:
        tensor = self.view(np.array(array), array.dtype)
        return tensor if self.backend == "cpu" else tensor.cuda()

    def copy(self, result: Any, output: Any, kind: np.dtype) -> None:
        self.view(output, kind).copy_(result)


class _Jax(Home):
    is_apart = True

    def view(self, array: Any, kind: np.dtype) -> Any:
        if is_extended(kind) or not getattr(getattr(array, "flags", None), "writeable", True):
            return self.bring(array)  # a copy: DLPack cannot describe it
        return importlib.import_module("jax").dlpack.from_dlpack(array)

    def bring(self, array: np.ndarray) -> Any:
        return importlib.import_module("jax.numpy").asarray(array)

    def copy(self, result: Any, output: Any, kind: np.dtype) -> None:
        output[...] = self.host(result) if self.backend == "cpu" else _read_by_cupy(result)

    def finish(self, returned: Any) -> Any:
        jax = importlib.import_module("jax")
        if self.backend == "cpu":
            return jax.block_until_ready(returned)
        for each in jax.tree_util.tree_leaves(returned):
            if home_of(each) is not None:
                _read_by_cupy(each)  # which lets CuPy's current stream wait for JAX's
        return returned

    def wide(self) -> Any:
        return importlib.import_module("jax").enable_x64(True)


def _read_by_cupy(array: Any) -> Any:
    return importlib.import_module("cupy").from_dlpack(array)


HOMES = {
    one.name: one
    for one in (
        Home("numpy", "cpu"),
        _Torch("torch on the host", "cpu"),
        _Torch("torch", "cuda"),
        _Jax("jax on the host", "cpu"),
        _Jax("jax", "cuda"),
        _Cupy("cupy", "cuda"),
    )
}
"""Array libraries by name. Numba's device arrays are CuPy's: each reads the other's memory by
`__cuda_array_interface__`."""


def home_of(value: Any) -> Home | None:
    """Return the library that an array belongs to; None for anything else."""
    if isinstance(value, np.ndarray):
        return HOMES["numpy"]
    library = type(value).__module__.partition(".")[0]
    if library == "torch" and hasattr(value, "data_ptr"):
        return HOMES["torch" if value.is_cuda else "torch on the host"]
    if library in ("jax", "jaxlib") and hasattr(value, "devices") and hasattr(value, "dtype"):
        return HOMES["jax on the host" if {each.platform for each in value.devices()} == {"cpu"} else "jax"]
    return HOMES["cupy"] if hasattr(value, "__cuda_array_interface__") else None


def to_host(value: Any, what: str) -> np.ndarray:
    """Return any array or number as a NumPy array; raise `FamilyError` for anything else, and for types NumPy lacks."""
    home = home_of(value)
    try:
        array = np.asarray(home.host(value) if home else value)
    except TypeError as error:
        raise FamilyError(f"{what} is a {type(value).__name__} that cannot be brought to NumPy: {error}") from None
    if not is_known(array.dtype):
        kind = f"an array of {array.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise FamilyError(f"{what} is {kind}; it must be an array of numbers, or a number")
    return array if array.flags.owndata else array.copy()  # others may write to memory that they own


def digest(arguments: Mapping[str, Any]) -> str:
    """Return a digest that distinguishes the arrays and numbers that were given once."""
    found = hashlib.sha256()
    for name, value in arguments.items():
        array = to_host(value, f"input {name}")
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def permute(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array with its floating-point elements in another order; whole numbers, maybe indices, stay."""
    if not is_floating(array):
        return array
    flat, block = array.reshape(-1), max(1, array.size // MOST_BLOCKS)
    blocks = flat[: flat.size - flat.size % block].reshape(-1, block)
    return np.concatenate([rng.permutation(blocks).reshape(-1), flat[blocks.size :]]).reshape(array.shape)


def widen(array: np.ndarray) -> np.ndarray:
    """Return floating-point numbers as float64 or complex128, and other arrays unchanged."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64) if is_floating(array) else array


def is_floating(array: np.ndarray) -> bool:
    """Return whether elements may be NaN."""
    return array.dtype.kind in "fcV" and not array.dtype.names


def by_field(arrays: Arrays) -> dict[str, np.ndarray]:
    """Return arrays of structs as one array a field, "points.x"; all others as they are."""
    found: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.dtype.names:
            found |= by_field({f"{name}.{field}": array[field] for field in array.dtype.names})
        else:
            found[name] = array
    return found


def dtype_of(value: Any) -> np.dtype:
    """Return the type of elements, NumPy's or ml_dtypes' of PyTorch's name; raise `FamilyError` where there is none."""
    kind = value.dtype
    return kind if isinstance(kind, np.dtype) else read_dtype(str(kind).removeprefix("torch."))


def is_known(kind: np.dtype) -> bool:
    """Return whether results of a type can be compared: numbers, those of ml_dtypes too, and structs."""
    return kind.kind in "biufc" or is_extended(kind) or bool(kind.names)


def describe(name: str, value: Any, *, is_copied: bool = False) -> Array:
    """Return shape and type of an array, or of the number that a function returned.

    Any view will do of one that `is_copied`, element by element. Elements that are no numbers, and what is masked,
    sparse or a view with gaps raise `FamilyError`.
    """
    value = np.asarray(value) if home_of(value) is None else value
    kind = dtype_of(value)
    if not is_known(kind):
        raise FamilyError(f"{name} is of type {kind}; it must be of numbers that NumPy has, such as float32")
    if not kind.isnative:
        raise FamilyError(f"{name} is of type {kind}, in another byte order; give .astype({kind.name!r}) of it")
    if not is_copied and (isinstance(value, np.ma.MaskedArray) or "sparse" in str(getattr(value, "layout", ""))):
        instead = "give its parts as arrays, and put them together in the functions"
        raise FamilyError(f"{name} is masked or sparse; {instead}")
    flags = getattr(value, "flags", None)
    is_packed = value.is_contiguous() if hasattr(value, "is_contiguous") else getattr(flags, "c_contiguous", True)
    if not is_packed and not is_copied:
        raise FamilyError(f"{name} is a view with gaps or another order; make it contiguous, functions are given that")
    return Array(tuple(map(int, value.shape)), kind if kind.names else str(kind))  # type: ignore[arg-type]


def as_scalar(name: str, value: Any) -> Scalar:
    """Return a number among the arguments; raise `FamilyError` for anything else."""
    if isinstance(value, np.generic) and isinstance(value.item(), int | float):
        return Scalar(value.item(), value.dtype.name)
    if isinstance(value, int | float):
        return Scalar(value)
    more = "; a struct or a complex number, in an array of one" if isinstance(value, np.generic | complex) else ""
    given = type(value).__name__
    raise FamilyError(f"input {name} is a {given}; give arrays (NumPy, CuPy, PyTorch, JAX) and numbers{more}")
