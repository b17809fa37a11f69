"""Detect changes to readings, since a variant's code runs in the process that keeps them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hashlib import blake2b

from cuprof.core.errors import TamperedError


class Seal:
    """A digest of records in their order, under a key that is kept nowhere but within it."""

    def __init__(self) -> None:
        self._empty = blake2b(key=secrets.token_bytes(32), digest_size=16)
        self._sealed = self._empty.copy()

    def add(self, record: bytes) -> None:
        """Seal one more record."""
        self._sealed.update(record)

    def verify(self, records: Iterable[bytes], name: str) -> None:
        """Raise `TamperedError` with this name where these are not the records that were sealed."""
        found = self._empty.copy()
        found.update(b"".join(records))
        if found.digest() != self._sealed.digest():
            raise TamperedError(name)
