"""Values that cuprof never writes, told in one line: a database may be damaged or changed by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy.engine import Connection

from cuprof.errors import StoreError
from cuprof.store.connection import show

Given = ParamSpec("Given")
Found = TypeVar("Found")


def intact(
    read: Callable[Concatenate[Connection, Given], Found],
) -> Callable[Concatenate[Connection, Given], Found]:
    """Let a reading function raise `StoreError` where it meets text that is no JSON, or a word that cuprof has not."""

    @wraps(read)
    def checked(connection: Connection, /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return read(connection, *args, **kwargs)
        except (ValueError, TypeError) as error:
            raise StoreError(
                f"database {show(connection.engine.url)} is damaged or was changed by hand ({error}); "
                "restore a copy of it, or name another one with --store"
            ) from error

    return checked
