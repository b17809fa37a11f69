"""Values that cuprof never writes, told in one line: a database may be damaged or changed by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy.engine import Connection

from cuprof.store.connection import checking

Given = ParamSpec("Given")
Found = TypeVar("Found")


def intact(
    read: Callable[Concatenate[Connection, Given], Found],
) -> Callable[Concatenate[Connection, Given], Found]:
    """Let a reading function raise `StoreError` where it meets what cuprof never writes; see `checking`."""

    @wraps(read)
    def checked(connection: Connection, /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        with checking(connection.engine.url):
            return read(connection, *args, **kwargs)

    return checked
