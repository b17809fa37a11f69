"""Values that cuprof never writes, told in one line: a database may be damaged or changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import MsgspecError
from sqlalchemy.engine import Connection

from cuprof.errors import StoreError
from cuprof.store.connection import show

Given = ParamSpec("Given")
Found = TypeVar("Found")


def intact(
    read: Callable[Concatenate[Connection, Given], Found],
) -> Callable[Concatenate[Connection, Given], Found]:
    """Let a reading function raise `StoreError` where it meets what cuprof never writes; see `checking`."""

    @wraps(read)
    def checked(connection: Connection, /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        with checking(connection):
            return read(connection, *args, **kwargs)

    return checked


@contextmanager
def checking(connection: Connection) -> Iterator[None]:
    """Turn what wrong values lead to into a `StoreError`: text that is no JSON, an unknown word, a missing row."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MsgspecError) as error:
        what = f"a row {error} is missing" if isinstance(error, LookupError) else " ".join(str(error).split())
        raise StoreError(
            f"database {show(connection.engine.url)} is damaged or was changed by hand ({what}); "
            "restore a copy of it, or name another one with --store"
        ) from error
