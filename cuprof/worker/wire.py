"""Messages as bytes and back: JSON over the schema of the dataclasses.

The worker runs strangers' code, so nothing that it says may execute: a message is decoded into the dataclass that its
kind names, field by field and type by type, or refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from cuprof.core.point import Coordinate, Point
from cuprof.worker import messages

MESSAGE_LIMIT_BYTES = 1 << 24
"""Refuse messages longer than this. A trial with 100,000 samples needs a third of it. Without a limit, stray
output of a variant in the pipe could be read as a huge length and waited for."""


class NonsenseError(ValueError):
    """Report bytes that are no message."""


class Wire:
    """One end of the pipe between engine and worker."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            BrokenPipeError, ConnectionResetError: nobody is there to take it.
        """
        self._pipe.send_bytes(encode(message))

    def receive(self) -> Any:
        """Wait for the next message and return it.

        Raises:
            EOFError, ConnectionResetError: the other end is closed.
            NonsenseError: the received bytes are not a message; the pipe is unusable.
        """
        try:
            data = self._pipe.recv_bytes(MESSAGE_LIMIT_BYTES)
        except (EOFError, ConnectionResetError):
            raise
        except OSError as error:  # longer than a message can be, or cut off
            raise NonsenseError(str(error)) from None
        return decode(data)

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Return whether there is something to receive, or the other end is closed."""
        return self._pipe.poll(timeout_s)


def encode(message: object) -> bytes:
    """Return a message as bytes: its kind and its fields.

    Python's JSON can hold more than MessagePack: integers of any size, and lone surrogates in a variant's output. It
    also has the infinities that strict JSON lacks.
    """
    plain = msgspec.to_builtins(message, enc_hook=_to_plain, str_keys=True)
    return json.dumps([type(message).__name__, plain]).encode()


def decode(data: bytes) -> Any:
    """Return the message that these bytes are.

    Raises:
        NonsenseError: they are none.
    """
    try:
        kind, plain = json.loads(data)
        return msgspec.convert(plain, messages.KINDS[kind], dec_hook=_from_plain)
    except (ValueError, TypeError, KeyError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise NonsenseError(f"{type(error).__name__}: {error}") from None


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # a NumPy scalar or array
        return value.tolist()
    raise NotImplementedError(f"a message cannot hold a {type(value).__name__}")


def _from_plain(kind: type, value: Any) -> Any:
    if kind is Point and isinstance(value, dict) and all(isinstance(each, Coordinate) for each in value.values()):
        return Point(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"no {kind.__name__}")
