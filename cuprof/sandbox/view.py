"""The files visible to a process in a sandbox: all read-only, a private /tmp, no devices except GPUs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuprof.core.project import is_database
from cuprof.sandbox import kernel
from cuprof.sandbox.settings import HIDDEN, HOME, Sandbox, needed_paths

PLAIN_DEVICES = ("null", "full", "random", "urandom")
GPU_DEVICES = ("zero", "nvidia*", "nvidia-caps/*", "nvidia-caps-imex-channels/*", "dri/*", "dxg", "kfd")
"""A driver may map "zero". Other processes do not get it: a shared mapping of it is memory that no size shows."""
LEAST_BYTES, MOST_INODES = 1 << 28, 1 << 16
"""Allow files in /tmp at least this much memory; it is their limit if none is set. Their number is limited, too:
the kernel takes 1.5 KB for each, whatever its size."""
DEVICES_AT = "/tmp/.dev"
KERNEL_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""What turns the kernel's settings, for root."""
NONE_OF = ("max_user_namespaces", "max_inotify_instances", "max_fanotify_groups")
"""Of these there are none inside: a network of its own works on without a process, and a user has few of the others."""
KERNEL_LISTS = ("/proc/pagetypeinfo", "/proc/slabinfo", "/proc/vmallocinfo")
"""What only root may read, and what others wait for while it is read."""


def enter_namespaces(sandbox: Sandbox) -> None:
    """Give this process and its children their own view; children forked from now on are in a new PID namespace.

    The process must have only one thread.

    Raises:
        OSError: the system refuses it; the steps done by then do no harm.
    """
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.NAMESPACES)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    for name in NONE_OF:
        with contextlib.suppress(OSError):  # of some kernels
            Path("/proc/sys/user", name).write_text("0")
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.make_read_only("/")
    visible = _open_hidden((*needed_paths(), *sandbox.visible, *sandbox.writable), sandbox)
    for folder in sandbox.covered:
        kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
    _hide(sandbox)
    for path, handle in sorted(visible.items()):
        _show(path, handle)
    for folder in sandbox.covered:
        kernel.make_read_only(folder)
    for path in sandbox.writable:
        kernel.make_writable(path)
    _empty((*sandbox.hidden, *(each for folder in sandbox.visible for each in _find_doors(folder))))
    Path(HOME).mkdir(exist_ok=True)
    os.chdir(HOME)  # the folder that we were in is reached past what hides it


def show_own_processes() -> None:
    """Show only the processes of this namespace; call this in its first process.

    Containers that hide parts of /proc refuse this. Other processes are then visible, but still out of reach.

    Raises:
        OSError: the kernel's switches cannot be made read-only.
    """
    kernel.unshare(kernel.CLONE_NEWNS)  # the keeper goes on to see all
    with contextlib.suppress(OSError):
        kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    for path in KERNEL_SWITCHES:  # the rest stays as it is: CUDA's driver writes below /proc/self
        if os.path.exists(path):  # noqa: PTH110
            kernel.mount(path, path, "", kernel.MS_BIND | kernel.MS_REC)
            kernel.make_read_only(path)
    _empty(KERNEL_LISTS)


def _empty(paths: Iterable[str]) -> None:
    """Have files that are there appear empty; folders with the name of one stay as they are."""
    for path in paths:
        if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112
            kernel.mount("/dev/null", path, "", kernel.MS_BIND)


def _hide(sandbox: Sandbox) -> None:
    limit = f"size={max(sandbox.memory_bytes, LEAST_BYTES)},nr_inodes={MOST_INODES}"
    kernel.mount("tmpfs", "/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"{limit},mode=1777")
    Path(DEVICES_AT).mkdir()
    kernel.mount("tmpfs", DEVICES_AT, "tmpfs", kernel.MS_NOSUID | kernel.MS_NOEXEC, "size=64k,nr_inodes=1k,mode=755")
    for device in list_devices(sandbox):
        place = Path(DEVICES_AT, device.relative_to("/dev"))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        kernel.mount(str(device), str(place), "", kernel.MS_BIND)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        Path(DEVICES_AT, name).symlink_to(target)
    Path(DEVICES_AT, "shm").mkdir()
    kernel.mount(DEVICES_AT, "/dev", "", kernel.MS_MOVE)
    Path(DEVICES_AT).rmdir()
    for folder in HIDDEN[1:]:
        if os.path.isdir(folder) and not os.path.islink(folder):  # noqa: PTH112, PTH114
            kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"{limit},mode=1777")


def list_devices(sandbox: Sandbox) -> Iterator[Path]:
    """Yield the device files that a process may use."""
    there = Path("/dev")
    yield from (there / name for name in PLAIN_DEVICES if (there / name).exists())
    for pattern in GPU_DEVICES if sandbox.devices else ():
        yield from (path for path in there.glob(pattern) if not path.is_dir() and not path.is_symlink())


def _open_hidden(paths: Iterable[str], sandbox: Sandbox) -> dict[str, int]:
    """Return path → descriptor of the paths inside a folder that is hidden; such a folder as a whole stays hidden."""
    hidden = {Path(folder) for folder in (*HIDDEN, *sandbox.covered)}
    below = (path for path in paths if not hidden.isdisjoint(Path(path).parents))
    return {path: os.open(path, os.O_PATH) for path in below}


def _find_doors(folder: str) -> Iterator[str]:
    """Yield what lets a process in a folder reach others: sockets, pipes, devices and databases."""
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:  # a home may have a million: nothing is asked of a file but what the folder says
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()) or is_database(entry.name):
                    yield entry.path


def _show(path: str, handle: int) -> None:
    """Bring an opened file or folder back to its place, and close the descriptor."""
    place, source = Path(path), f"/proc/self/fd/{handle}"
    if not place.exists():  # else it is within a folder that was brought back whole
        if os.path.isdir(source):  # noqa: PTH112
            place.mkdir(parents=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
    kernel.mount(source, path, "", kernel.MS_BIND | kernel.MS_REC)
    os.close(handle)
