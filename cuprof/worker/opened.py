"""Record the files that a variant's own code opens while it prepares, since their contents decide its behaviour."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WRITING = os.O_WRONLY | os.O_RDWR
_CODE = (".py", ".pyc", ".so")
"""Code files. Their text, or their package's version, is part of an identity anyway."""


class FileListener:
    """Listen to Python's audit event for opening files, on request; native code's own files go unnoticed.

    There is one for the process, and it listens to the thread that variants run in.
    """

    def __init__(self) -> None:
        self._current: set[str] | None = None
        self._passed_over: tuple[str, ...] = ()
        self._is_installed = False

    def install(self) -> None:
        """Begin to listen, for good; calling it again changes nothing."""
        if not self._is_installed:
            self._passed_over = _system_folders()
            sys.addaudithook(self._hear)
            self._is_installed = True

    @contextmanager
    def recorded(self, into: set[str]) -> Iterator[None]:
        """Add the absolute paths of data files opened for reading to a set, until the block ends."""
        self.install()
        found: set[str] = set()
        self._current = found
        try:
            yield
        finally:
            self._current = None
            into |= {path for path in found if self._counts(path)}

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._current is None or event != "open":
            return
        path, mode, flags = arguments[0], arguments[1], arguments[2]
        is_read = (
            "w" not in mode and "a" not in mode and "x" not in mode
            if isinstance(mode, str)
            else not (isinstance(flags, int) and flags & _WRITING)
        )
        if is_read and isinstance(path, str | bytes):
            self._current.add(str(Path(os.fsdecode(path)).absolute()))

    def _counts(self, path: str) -> bool:
        real = Path(path).resolve()
        cached = str(real).startswith(f"{Path.home()}{os.sep}.")  # ~/.cache, ~/.triton
        hidden = cached or real.name.startswith(".") or "__pycache__" in real.parts
        return not (hidden or real.suffix in _CODE or str(real).startswith(self._passed_over)) and real.is_file()


def _system_folders() -> tuple[str, ...]:
    """Return the folders whose files are the system's, a package's or somebody's cache."""
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    packages = {entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
    system = {"/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64", "/opt", "/var/cache", "/run"}
    caches = {os.environ.get("XDG_CACHE_HOME") or "", os.environ.get("CUPROF_CACHE") or ""}
    own = {str(Path(__file__).parents[1])}
    folders = installed | packages | system | caches | own
    return tuple(f"{os.path.realpath(each)}{os.sep}" for each in folders if each)


OPENED = FileListener()
