"""Switches of libraries that one variant turns and that are not to reach the next one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Switch(NamedTuple):
    """One setting that lives as long as the process."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]


def keep_own(prepare: Callable[[], Callable[[], object]]) -> Callable[[], object]:
    """Prepare a function whose library switches are turned only while it runs.

    Switches that it turns during preparation are turned again before each execution, and back after it. It then runs as
    intended, and other variants are unaffected.
    """
    _find_pools()
    _read_all()
    function = prepare()
    _find_pools()
    own = [(switch, now, known) for switch, now, known in _read_all() if now is not known and now != known]
    if not own:
        return function
    put_back_switches()

    def run() -> None:
        for switch, mine, _ in own:
            switch.write(mine)
        try:
            function()
        finally:
            for switch, _, others in own:
                switch.write(others)

    return run


def put_back_switches() -> None:
    """Turn each switch back to how it was first seen: before its library's first user, or after that had loaded it."""
    for switch, now, known in _read_all():
        if now is not known and now != known:
            switch.write(known)


_KNOWN: dict[str, Any] = {}
_POOLS: dict[str, Switch] = {}
"""Thread settings of libraries. They are looked for when a variant prepares, which may load one, not after each
execution."""


def _find_pools() -> None:
    _POOLS.update((pool.name, pool) for pool in list_thread_pools())


def _read_all() -> list[tuple[Switch, Any, Any]]:
    """Return each switch with its current and its first value."""
    found = []
    for switch in (*list_switches(_loaded("torch", "backends"), _loaded("cupy", "cuda")), *_POOLS.values()):
        try:
            now = switch.read()
        except Exception:  # a library may refuse to read a switch that was set in another way
            continue
        found.append((switch, now, _KNOWN.setdefault(switch.name, now)))
    return found


def _loaded(name: str, part: str) -> Any:
    """Return a module, or None where it is not loaded as far as this part of it."""
    module = sys.modules.get(name)
    return module if hasattr(module, part) else None


@cache
def list_switches(torch: Any, cupy: Any) -> tuple[Switch, ...]:
    """Return the switches of these libraries; None for one that is not loaded."""
    found = []
    if torch is not None:
        for owner, name in (
            (torch.backends.cuda.matmul, "allow_tf32"),
            (torch.backends.cudnn, "allow_tf32"),
            (torch.backends.cudnn, "benchmark"),
            (torch.backends.cudnn, "deterministic"),
            (torch.backends.cudnn, "enabled"),
        ):
            found.append(_of_attribute(owner, name))
        found += [
            Switch("torch default dtype", torch.get_default_dtype, torch.set_default_dtype),
            Switch("torch threads", torch.get_num_threads, torch.set_num_threads),
            Switch("torch gradients", torch.is_grad_enabled, torch.set_grad_enabled),
        ]
    if cupy is not None:
        found.append(Switch("cupy allocator", cupy.cuda.get_allocator, cupy.cuda.set_allocator))
    return tuple(found)


def _of_attribute(owner: Any, name: str) -> Switch:
    return Switch(
        f"{owner.__name__ if hasattr(owner, '__name__') else type(owner).__name__}.{name}",
        lambda: getattr(owner, name),
        lambda value: setattr(owner, name, value),
    )


def list_thread_pools() -> Iterator[Switch]:
    """Yield how many threads each library may use that is loaded now: BLAS, OpenMP, Numba."""
    from threadpoolctl import ThreadpoolController  # where a variant prepares, not as any process starts

    for library in ThreadpoolController().lib_controllers:
        if library.get_num_threads() is not None:
            name = f"threads of {Path(library.filepath).name}"
            yield Switch(name, library.get_num_threads, library.set_num_threads)
    numba = sys.modules.get("numba.np.ufunc.parallel")
    if getattr(numba, "_is_initialized", False):  # to ask would else start its threads
        assert numba is not None
        yield Switch("Numba's threads", numba.get_num_threads, numba.set_num_threads)
