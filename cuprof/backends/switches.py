"""A variant's own function, prepared on a session's arrays; switches of libraries that it turns reach no other one."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from cuprof.core.point import Point
from cuprof.families import Call, Variant

TORCH = (
    "backends.cuda.matmul.allow_tf32", "backends.cudnn.allow_tf32", "backends.cudnn.benchmark",
    "backends.cudnn.deterministic", "backends.cudnn.enabled",
)  # fmt: skip
"""Switches of PyTorch that are attributes."""


class Switch(NamedTuple):
    """One setting that lives as long as the process."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]


def prepare_call(
    variant: Variant, problem: Point, tunables: Point, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> tuple[Callable[[], object], Callable[[], object] | None]:
    """Let a variant prepare itself; return the function to time, and one that delivers returned results.

    Library switches that it turns during preparation are turned again before each execution, and back after it. It then
    runs as intended, and other variants are unaffected.

    Raises:
        TypeError: a family's own function wants something called untimed.
    """
    _find_pools()
    _list_turned()
    made = variant.make(problem, tunables, own_views(inputs), own_views(outputs))
    _find_pools()
    own = _list_turned()
    put_back_switches()

    def run() -> None:
        for switch, mine, _ in own:
            switch.write(mine)
        try:
            made()
        finally:
            for switch, _, others in own:
                switch.write(others)

    function = run if own else made
    if not isinstance(made, Call):
        return function, None
    home = getattr(getattr(variant.make, "func", variant.make), "__globals__", {}).get("__name__", "")
    if not home.startswith("cuprof."):
        raise TypeError("it returned a Call, whose `put` is not timed; return a function that writes into the outputs")
    return function, made.deliver


def put_back_switches() -> None:
    """Turn each switch back to how it was first seen: before its library's first user, or after that had loaded it."""
    for switch, _, known in _list_turned():
        switch.write(known)


_KNOWN: dict[str, Any] = {}
_POOLS: dict[str, Switch] = {}
"""Thread settings of libraries. They are looked for when a variant prepares, which may load one, not after each
execution."""
_searched: list[int] = [-1]
"""How many libraries had been loaded at the last search, which takes a millisecond."""


class _Loaded(ctypes.Structure):
    """The beginning of glibc's `dl_phdr_info`."""

    _fields_ = (
        ("address", ctypes.c_void_p), ("name", ctypes.c_char_p), ("headers", ctypes.c_void_p),
        ("count", ctypes.c_uint16), ("adds", ctypes.c_ulonglong),
    )  # fmt: skip


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)


def _find_pools() -> None:
    loads = _count_loads()
    if loads != _searched[0] or not loads:
        _searched[0] = loads
        _POOLS.update((pool.name, pool) for pool in list_thread_pools())


def _count_loads() -> int:
    """Return how many shared libraries this process has loaded so far; 0 where the system does not say."""
    found = [0]

    def note(info: Any, *_: object) -> int:
        found[0] = info[0].adds
        return 1  # the number is in each entry

    with suppress(AttributeError):
        ctypes.CDLL(None).dl_iterate_phdr(_CALLBACK(note), None)
    return found[0]


def _list_turned() -> list[tuple[Switch, Any, Any]]:
    """Return each switch that is not as it was first seen, with its value now and then."""
    found = []
    for switch in (*list_switches(_loaded("torch", "backends"), _loaded("cupy", "cuda")), *_POOLS.values()):
        try:
            now = switch.read()
        except Exception:  # a library may refuse to read a switch that was set in another way
            continue
        known = _KNOWN.setdefault(switch.name, now)
        if now is not known and now != known:
            found.append((switch, now, known))
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
        for path in TORCH:
            place, _, name = path.rpartition(".")
            owner = attrgetter(place)(torch)
            found.append(Switch(path, partial(getattr, owner, name), partial(setattr, owner, name)))
        found += [
            Switch("torch default dtype", torch.get_default_dtype, torch.set_default_dtype),
            Switch("torch threads", torch.get_num_threads, torch.set_num_threads),
            Switch("torch gradients", torch.is_grad_enabled, torch.set_grad_enabled),
        ]
    if cupy is not None:
        found.append(Switch("cupy allocator", cupy.cuda.get_allocator, cupy.cuda.set_allocator))
    return tuple(found)


def list_thread_pools() -> Iterator[Switch]:
    """Yield how many threads each library may use that is loaded now: BLAS, OpenMP, Numba."""
    from threadpoolctl import ThreadpoolController  # where a variant prepares, not as any process starts

    for library in ThreadpoolController().lib_controllers:
        if library.get_num_threads() is not None:
            name = f"threads of {Path(library.filepath).name}"
            yield Switch(name, library.get_num_threads, library.set_num_threads)
    numba: Any = sys.modules.get("numba.np.ufunc.parallel")
    if getattr(numba, "_is_initialized", False):  # to ask would else start its threads
        yield Switch("Numba's threads", numba.get_num_threads, numba.set_num_threads)


def own_views(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return NumPy or CuPy arrays for one variant only.

    No other variant sees its changes to their shape, type or flags, or the arrays that it puts in their place.
    """
    return _Views({name: array.view() for name, array in arrays.items()})


class _Views(dict[str, Any]):
    """Arrays in whose place none may be put: `outputs["y"] += x` writes into the one that is there."""

    def __setitem__(self, name: str, array: Any) -> None:
        if array is not self.get(name):
            raise TypeError(f'{name} is replaced by another array; write into the one that is there: ["{name}"][:] = …')
