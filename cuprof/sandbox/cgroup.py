"""Let the kernel limit a sandbox's memory, by a control group, and know the limits of the groups that are there.

It takes version 2, and a group whose subgroups are this user's to make: `systemd-run --user --scope -p Delegate=yes`,
say. Memory of every kind counts then: pages, files in memory, and what the kernel keeps for processes and files.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
DELEGATED = ("user.delegate", "trusted.delegate")
"""systemd marks with these a group in which others may make subgroups. Root could write into any."""
PREFIX = "cuprof-"
END_LIMIT_S = 5.0
"""Wait this long for the last processes to be gone."""


class ControlGroup:
    """A group with a limit of memory that this process has joined.

    Its files are reached from its parent's folder, which stays open: in a namespace the paths are read-only.
    """

    def __init__(self, parent: Path, own: str, memory_bytes: int) -> None:
        """Make it and join it.

        Args:
            own: the path from the parent of the group that this process is in.

        Raises:
            OSError: it is not ours to make, or there is none of this version.
        """
        self.name, self.own = f"{PREFIX}{os.getpid()}", own
        self._parent = os.open(parent, os.O_PATH | os.O_DIRECTORY)
        try:
            if "memory" not in self._read("cgroup.subtree_control").split():
                self._write("cgroup.subtree_control", "+memory")
            os.mkdir(self.name, dir_fd=self._parent)
            try:
                with contextlib.suppress(OSError):  # a kernel without swap
                    self._write(f"{self.name}/memory.swap.max", "0")
                self._write(f"{self.name}/memory.oom.group", "1")
                self._write(f"{self.name}/memory.max", str(memory_bytes))
                self._write(f"{self.name}/cgroup.procs", "0")
            except OSError:
                self._remove()
                raise
        except OSError:
            self.close()
            raise

    def leave(self) -> None:
        """Return to the group that this process was in; its children stay."""
        self._write(f"{self.own}/cgroup.procs", "0")

    def was_exceeded(self) -> bool:
        """Return whether the kernel has ended processes because they needed more memory."""
        events = dict(line.split() for line in self._read(f"{self.name}/memory.events").splitlines())
        return events["oom_kill"] != "0"

    def end(self) -> None:
        """End the processes that are left, and remove it."""
        with contextlib.suppress(OSError):  # before Linux 5.14 there is no such file
            self._write(f"{self.name}/cgroup.kill", "1")
        give_up = time.monotonic() + END_LIMIT_S
        while not self._remove() and time.monotonic() < give_up:
            time.sleep(0.01)
        self.close()

    def close(self) -> None:
        """Close what reaches it."""
        os.close(self._parent)

    def _remove(self) -> bool:
        with contextlib.suppress(OSError):
            os.rmdir(self.name, dir_fd=self._parent)
            return True
        return False

    def _read(self, name: str) -> str:
        with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=self._parent)) as file:
            return file.read()

    def _write(self, name: str, text: str) -> None:
        with os.fdopen(os.open(name, os.O_WRONLY, dir_fd=self._parent), "wb", buffering=0) as file:
            file.write(text.encode())  # at once, so that a refusal is raised here


def join_group(memory_bytes: int) -> ControlGroup | None:
    """Make a group with this limit and move this process into it; return None where none can be made.

    It is made in this process's own group or, where the kernel wants that one to have processes or subgroups alone,
    beside it. Groups of keepers that were killed are removed.
    """
    own = _find_own()
    if own is None:
        return None
    for parent in (own, own.parent):
        if ROOT in (parent, *parent.parents) and _is_ours(parent):
            _remove_left(parent)
            with contextlib.suppress(OSError):
                return ControlGroup(parent, str(own.relative_to(parent)), memory_bytes)
    return None


def list_thread_limits() -> Iterator[int]:
    """Yield how many threads the groups that this process is in may have, as far as they can be seen from here."""
    for group, _ in list_groups("pids"):
        with contextlib.suppress(OSError, ValueError):  # or there is none, which is called "max"
            yield int((group / "pids.max").read_text())


def list_groups(kind: str) -> Iterator[tuple[Path, int]]:
    """Yield each group that this process is in and that may limit this kind ("memory"), and its version, 1 or 2."""
    with contextlib.suppress(OSError):
        for line in OWN.read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and kind not in kinds.split(","):  # before version 2 each kind has groups of its own
                continue
            top = ROOT / kind if kinds else ROOT
            own = top / path.lstrip("/")
            for group in (own, *own.parents)[: len(own.relative_to(top).parts) + 1]:
                yield group, 1 if kinds else 2


def _find_own() -> Path | None:
    """Return the group of this process, if it can be seen from here."""
    with contextlib.suppress(OSError):
        for line in OWN.read_text().splitlines():
            if line.startswith("0::/") and ".." not in Path(line).parts:
                return ROOT / line.removeprefix("0::/")
    return None


def _is_ours(group: Path) -> bool:
    """Return whether a group's subgroups are this user's to make."""
    if os.geteuid():
        return os.access(group, os.W_OK)
    return group == ROOT or any(_is_set(group, name) for name in DELEGATED)


def _is_set(group: Path, attribute: str) -> bool:
    with contextlib.suppress(OSError):
        return os.getxattr(group, attribute) == b"1"
    return False


def _remove_left(parent: Path) -> None:
    for left in parent.glob(f"{PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(PREFIX)).exists():
            with contextlib.suppress(OSError):  # in use
                left.rmdir()
