"""Arrays of NumPy, CuPy, PyTorch, JAX and Numba: recognise them, copy them, and view a session's arrays as theirs."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuprof.core.errors import FamilyError
from cuprof.families.model import Scalar
from cuprof.families.program import Array, is_extended, read_dtype

BITS = {2: "int16", 1: "uint8"}
"""Bytes of a type that NumPy and CuPy lack → the integer type that carries its bits."""


def _same(array: Any, kind: np.dtype | None = None) -> Any:
    return array


def _write(result: Any, output: Any, kind: np.dtype) -> None:
    output[...] = result


@dataclass(frozen=True)
class Home:
    """One library's arrays in one memory.

    Args:
        backend: the back end whose session holds such arrays: "cpu" NumPy arrays, "cuda" CuPy arrays.
        host: the library's array → a NumPy array.
        view: a session's array and its elements' type → the library's on the same memory.
        bring: a NumPy array → the library's.
        copy: copies the library's result into a session's output, of that type.
        finish: returns a function's result once the session's own stream waits for it; None if the library works on
            that stream. A library with `finish` also gets new views at each execution.
        wide: lets the library compute in float64.
        permute: returns the library's elements in an order that the generator decides, in the memory that they are in.
    """

    name: str
    backend: str
    host: Callable[[Any], np.ndarray] = np.asarray
    view: Callable[[Any, np.dtype], Any] = _same
    bring: Callable[[np.ndarray], Any] = _same
    copy: Callable[[Any, Any, np.dtype], object] = _write
    finish: Callable[[Any], Any] | None = None
    wide: Callable[[], AbstractContextManager[Any]] = nullcontext
    permute: Callable[[Any, np.random.Generator], Any] | None = None


def as_tensor(array: Any, kind: np.dtype | str) -> Any:
    """Return a PyTorch tensor on the memory of a NumPy or CuPy array; types that CuPy lacks lie in it as bits."""
    torch, kind = importlib.import_module("torch"), read_dtype(kind) if isinstance(kind, str) else kind
    is_foreign = is_extended(kind)
    seen = array.view(BITS[kind.itemsize]) if is_foreign else array
    tensor = torch.from_numpy(seen) if isinstance(seen, np.ndarray) else torch.from_dlpack(seen)
    return tensor.view(getattr(torch, kind.name)) if is_foreign else tensor


def _tensor_to_host(tensor: Any) -> np.ndarray:
    torch, kind, tensor = importlib.import_module("torch"), dtype_of(tensor), tensor.detach().cpu()
    if is_extended(kind):
        tensor = tensor.view({1: torch.int8, 2: torch.int16}[kind.itemsize])
    return np.asarray(tensor.numpy()).view(kind)


def _permute_tensor(tensor: Any, rng: np.random.Generator) -> Any:
    torch = importlib.import_module("torch")
    generator = torch.Generator(tensor.device).manual_seed(int(rng.integers(2**63)))
    order = torch.randperm(tensor.numel(), generator=generator, device=tensor.device)
    bits = tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor  # float8 has no indexing of its own
    return bits.reshape(-1)[order].reshape(tensor.shape).view(tensor.dtype)


def _permute_cupy(array: Any, rng: np.random.Generator) -> Any:
    cupy, array = importlib.import_module("cupy"), _cupy(array)
    order = cupy.random.RandomState(int(rng.integers(2**32))).permutation(array.size)
    return array.reshape(-1)[order].reshape(array.shape)


def _cupy(array: Any) -> Any:
    return importlib.import_module("cupy").asarray(array)


def _jax(array: Any, kind: np.dtype) -> Any:
    """Return a JAX array on the memory of a session's array, or a copy if DLPack cannot describe it."""
    if is_extended(kind) or not getattr(getattr(array, "flags", None), "writeable", True):
        return importlib.import_module("jax.numpy").asarray(array)
    return importlib.import_module("jax").dlpack.from_dlpack(array)


def _wait_for_jax(returned: Any) -> Any:
    return importlib.import_module("jax").block_until_ready(returned)


def _follow_jax(returned: Any) -> Any:
    """Let CuPy's current stream wait for JAX's, which a consumer of an array through DLPack does."""
    cupy, jax = importlib.import_module("cupy"), importlib.import_module("jax")
    for each in jax.tree_util.tree_leaves(returned):
        if home_of(each) is not None:
            cupy.from_dlpack(each)
    return returned


def _tensors(name: str, backend: str, **own: Any) -> Home:
    return Home(name, backend, _tensor_to_host, as_tensor, permute=_permute_tensor, **own)


def _jax_arrays(name: str, backend: str, **own: Any) -> Home:
    """Return JAX's arrays in one memory; JAX is asked for only when it is used."""

    def bring(array: np.ndarray) -> Any:
        return importlib.import_module("jax.numpy").asarray(array)

    def wide() -> Any:
        return importlib.import_module("jax").enable_x64(True)

    return Home(name, backend, view=_jax, bring=bring, wide=wide, **own)


HOMES = {
    one.name: one
    for one in (
        Home("numpy", "cpu"),
        _tensors(
            "torch on the host",
            "cpu",
            bring=lambda array: as_tensor(np.array(array), array.dtype),
            copy=lambda result, output, kind: _write(_tensor_to_host(result), output, kind),
        ),
        _tensors(
            "torch",
            "cuda",
            bring=lambda array: as_tensor(np.array(array), array.dtype).cuda(),
            copy=lambda result, output, kind: as_tensor(output, kind).copy_(result),
        ),
        _jax_arrays(
            "jax on the host",
            "cpu",
            copy=lambda result, output, kind: _write(np.asarray(result), output, kind),
            finish=_wait_for_jax,
        ),
        _jax_arrays(
            "jax",
            "cuda",
            copy=lambda result, output, kind: _write(importlib.import_module("cupy").from_dlpack(result), output, kind),
            finish=_follow_jax,
        ),
        Home(
            "cupy",
            "cuda",
            lambda array: _cupy(array).get(),
            bring=_cupy,
            copy=lambda result, output, kind: _write(_cupy(result), output, kind),
            permute=_permute_cupy,
        ),
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
    return array if array.flags.owndata else array.copy()  # others may write to memory that they own


def permute(value: Any, rng: np.random.Generator, what: str) -> np.ndarray:
    """Return an array with its floating-point elements in another order; whole numbers, maybe indices, stay.

    Arrays on a device are permuted there: ten million numbers take NumPy some tenths of a second.
    """
    home = home_of(value)
    if home is not None and home.permute is not None and dtype_of(value).kind in "fcV":
        return to_host(home.permute(value, rng), what)
    array = to_host(value, what)
    return rng.permutation(array.reshape(-1)).reshape(array.shape) if is_floating(array) else array


def widen(array: np.ndarray) -> np.ndarray:
    """Return floating-point numbers as float64 or complex128, and other arrays unchanged."""
    wide = {"f": np.float64, "c": np.complex128, "V": np.float64}.get(array.dtype.kind)
    return array if wide is None or array.dtype.names else array.astype(wide)


def is_floating(array: np.ndarray) -> bool:
    """Return whether elements may be NaN."""
    return array.dtype.kind in "fcV" and not array.dtype.names


def dtype_of(value: Any) -> np.dtype:
    """Return the type of an array's elements; for PyTorch, NumPy's type of the same name.

    Raises:
        FamilyError: neither NumPy nor ml_dtypes has such a type.
    """
    kind = value.dtype
    return kind if isinstance(kind, np.dtype) else read_dtype(str(kind).removeprefix("torch."))


def is_known(kind: np.dtype) -> bool:
    """Return whether results of a type can be compared: numbers, those of ml_dtypes too, and structs."""
    return kind.kind in "biufc" or is_extended(kind) or bool(kind.names)


def describe(name: str, value: Any, *, is_copied: bool = False) -> Array:
    """Return shape and type of an array, or of the number that a function returned.

    Args:
        is_copied: it is copied element by element, so that any view will do.

    Raises:
        FamilyError: its elements are no numbers, or it is masked, sparse or a view with gaps.
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
    """Return a number among the arguments.

    Raises:
        FamilyError: it is none.
    """
    if isinstance(value, np.generic) and isinstance(value.item(), int | float):
        return Scalar(value.item(), value.dtype.name)
    if isinstance(value, int | float):
        return Scalar(value)
    kind = type(value).__name__
    more = "; a struct or a complex number, in an array of one" if isinstance(value, np.generic | complex) else ""
    raise FamilyError(f"input {name} is a {kind}; give arrays (NumPy, CuPy, PyTorch, JAX) and numbers{more}")


def digest_of(drawn: Mapping[str, Any]) -> str:
    """Return a digest that distinguishes the given arrays and numbers."""
    digest = hashlib.sha256()
    for name, value in drawn.items():
        array = to_host(value, f"input {name}")
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
