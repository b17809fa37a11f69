"""Seal reference results, so that no variant finds them as arrays in the process's memory."""

from __future__ import annotations

import secrets

import numpy as np

from cuprof.families import Arrays

KEY_BYTES = 1 << 16


class Sealed:
    """Arrays by name whose bytes are masked until `open`; a variant that walks the heap finds nothing to copy."""

    def __init__(self, arrays: Arrays) -> None:
        self._key = np.frombuffer(secrets.token_bytes(KEY_BYTES), np.uint8)
        self._held = {
            name: (array.shape, array.dtype, self._masked(np.ascontiguousarray(array)))
            for name, array in arrays.items()
        }

    def open(self) -> dict[str, np.ndarray]:
        """Return new arrays with the reference results; the caller must release them before a variant runs."""
        return {
            name: self._masked(masked).view(dtype).reshape(shape) if masked.size else np.empty(shape, dtype)
            for name, (shape, dtype, masked) in self._held.items()
        }

    def _masked(self, array: np.ndarray) -> np.ndarray:
        content = array.reshape(-1).view(np.uint8)
        masked = np.empty(content.size, np.uint8)
        for start in range(0, content.size, self._key.size):
            part = content[start : start + self._key.size]
            np.bitwise_xor(part, self._key[: part.size], out=masked[start : start + part.size])
        return masked
