"""Inputs of a workload on the host, and arrays as a solution is given them."""

from __future__ import annotations

import importlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.core.errors import UsageError
from cuprof.families import Array
from cuprof.families.program import is_extended, read_dtype

LARGEST = {"int8": 128, "int16": 1024, "int32": 1024, "int64": 1024, "uint8": 255}
"""Random whole numbers are drawn between minus this and this, as both benchmarks draw them."""
SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
    "BOOL": "bool",
}  # fmt: skip
BITS = {2: "int16", 1: "uint8"}
"""Bytes of a type that NumPy and CuPy lack → what its bits are exchanged as."""


def draw(spec: Array, rng: np.random.Generator) -> np.ndarray:
    """Return random elements: normal ones, of 8 bits between -2 and 2; whole numbers as `LARGEST` says."""
    kind = str(spec.dtype)
    if kind == "bool":
        return rng.integers(0, 2, spec.shape).astype(bool)
    if kind in LARGEST:
        least = 0 if kind == "uint8" else -LARGEST[kind]
        return rng.integers(least, LARGEST[kind], spec.shape).astype(kind)
    numbers = rng.standard_normal(spec.shape, np.float32 if kind != "float64" else np.float64)
    return np.asarray(np.clip(numbers, -2, 2) if kind.startswith("float8") else numbers).astype(spec.type)


def read_tensor(path: Path, key: str, spec: Array) -> np.ndarray:
    """Return a tensor of a safetensors file: eight bytes of length, a header in JSON, then the tensors' bytes.

    Raises:
        UsageError: there is no such tensor, or it is of another shape or type.
    """
    try:
        with path.open("rb") as stream:
            header = json.loads(stream.read(struct.unpack("<Q", stream.read(8))[0]))
            said, begin = header.get(key), stream.tell()
            if said is None:
                raise UsageError(f"{path} has no tensor {key}; there are {', '.join(set(header) - {'__metadata__'})}")
            if SAFETENSORS.get(said["dtype"]) != spec.dtype or tuple(said["shape"]) != spec.shape:
                found = f"{said['dtype']} of {said['shape']}"
                raise UsageError(f"{path}: {key} is {found}, not {spec.dtype} of {spec.shape}")
            stream.seek(begin + said["data_offsets"][0])
            content = stream.read(said["data_offsets"][1] - said["data_offsets"][0])
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise UsageError(f"{path} cannot be read as safetensors: {error}") from None
    return np.frombuffer(bytearray(content), spec.type).reshape(spec.shape)


def as_tensor(array: Any, kind: np.dtype | str) -> Any:
    """Return a PyTorch tensor on the memory of a NumPy or CuPy array; types that CuPy lacks lie in it as bits."""
    torch, kind = importlib.import_module("torch"), read_dtype(kind) if isinstance(kind, str) else kind
    is_foreign = is_extended(kind)
    seen = array.view(BITS[kind.itemsize]) if is_foreign else array
    tensor = torch.from_numpy(seen) if isinstance(seen, np.ndarray) else torch.from_dlpack(seen)
    return tensor.view(getattr(torch, kind.name)) if is_foreign else tensor


def to_device(array: np.ndarray, kind: np.dtype | str) -> Any:
    """Return a PyTorch tensor on the device with the content of a NumPy array."""
    return as_tensor(np.array(array), kind).cuda()


def to_host(value: Any, spec: Array) -> np.ndarray:
    """Return a result of the reference, or an input that a definition makes, as a NumPy array of the type declared."""
    if hasattr(value, "detach"):
        value = value.detach()
        value = (value.float() if value.is_floating_point() and value.element_size() < 4 else value).cpu().numpy()
    return np.asarray(value).astype(spec.type, copy=False).reshape(spec.shape)
