"""Record the files that a variant's own code opens while it prepares, since their contents decide its behaviour."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_WRITING = os.O_WRONLY | os.O_RDWR
_CODE = (".py", ".pyc", ".so")
"""Code files. Their text, or their package's version, is part of an identity anyway."""
_heard: set[str] | None = None
"""The files that any thread has opened since the recording began; None outside a recording."""


@contextmanager
def recorded(into: set[str]) -> Iterator[None]:
    """Add the absolute paths of data files opened for reading to a set, until the block ends.

    Python's audit event for opening files tells them; native code's own files go unnoticed.
    """
    global _heard
    passed_over = _listen()
    found = _heard = set[str]()
    try:
        yield
    finally:
        _heard = None
        into |= {path for path in found if _counts(path, passed_over)}


@cache
def _listen() -> tuple[str, ...]:
    """Begin to listen, for good; return the folders whose files are the system's, a package's or somebody's cache."""
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    packages = {entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
    system = {"/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64", "/opt", "/var/cache", "/run"}
    caches = {os.environ.get("XDG_CACHE_HOME") or "", os.environ.get("CUPROF_CACHE") or ""}
    own = {str(Path(__file__).parents[1])}
    sys.addaudithook(_hear)
    return tuple(f"{os.path.realpath(each)}{os.sep}" for each in installed | packages | system | caches | own if each)


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if _heard is None or event != "open":
        return
    path, mode, flags = arguments[0], arguments[1], arguments[2]
    is_written = {"w", "a", "x"} & set(mode) if isinstance(mode, str) else isinstance(flags, int) and flags & _WRITING
    if not is_written and isinstance(path, str | bytes):
        _heard.add(str(Path(os.fsdecode(path)).absolute()))


def _counts(path: str, passed_over: tuple[str, ...]) -> bool:
    real = Path(path).resolve()
    cached = str(real).startswith(f"{Path.home()}{os.sep}.")  # ~/.cache, ~/.triton
    # what lists installed packages reads the metadata of all, wherever they are
    about = any(part.endswith((".dist-info", ".egg-info")) for part in real.parts)
    hidden = cached or about or real.name.startswith(".") or "__pycache__" in real.parts
    return not (hidden or real.suffix in _CODE or str(real).startswith(passed_over)) and real.is_file()
