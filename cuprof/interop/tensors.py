"""Inputs of a workload on the host: drawn, or read from a file of tensors."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.core.errors import UsageError
from cuprof.core.text import list_first
from cuprof.families import Array
from cuprof.interop.files import open_regular
from cuprof.interop.results import FAULTS

LARGEST = {"int8": 128, "int16": 1024, "int32": 1024, "int64": 1024, "uint8": 255}
"""Random whole numbers are drawn between minus this and this, as both benchmarks draw them."""
SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
    "BOOL": "bool",
}  # fmt: skip
MOST_HEADER_BYTES = 100 << 20
"""As the library safetensors takes them."""


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
        with open_regular(path) as stream:
            length = struct.unpack("<Q", stream.read(8))[0]
            if length > MOST_HEADER_BYTES:
                raise ValueError(f"its header has {length} bytes; at most {MOST_HEADER_BYTES} are read")
            header = json.loads(stream.read(length))
            if key not in header:
                raise ValueError(f"no tensor {key}; there are {list_first(sorted({*header} - {'__metadata__'}), 4)}")
            said, (first, last) = header[key], header[key]["data_offsets"]
            if SAFETENSORS.get(said["dtype"]) != spec.dtype or tuple(said["shape"]) != spec.shape:
                raise ValueError(f"{key} is {said['dtype']} of {said['shape']}, not {spec.dtype} of {spec.shape}")
            if last - first != spec.nbytes:
                raise ValueError(f"{key} has {last - first} bytes, and its shape takes {spec.nbytes}")
            stream.seek(8 + length + first)
            return np.frombuffer(bytearray(stream.read(spec.nbytes)), spec.type).reshape(spec.shape)
    except (*FAULTS, struct.error) as error:
        raise UsageError(f"{path} cannot be read as safetensors: {error}") from None


def as_declared(value: Any, spec: Array) -> np.ndarray:
    """Return a result of the reference, or an input that a definition makes, as a NumPy array of the type declared."""
    if hasattr(value, "detach"):
        value = value.detach()
        value = (value.float() if value.is_floating_point() and value.element_size() < 4 else value).cpu().numpy()
    return np.asarray(value).astype(spec.type, copy=False).reshape(spec.shape)
