"""Look up back ends by name. A description loads nothing; opening a back end loads its dependencies.

A package adds one by an entry point of the group `cuprof.backends` that names its `BackendSpec`.
"""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from cuprof.backends.spec import BackendSpec, ListedDevice
from cuprof.core.plugins import list_plugins, load_plugin
from cuprof.core.records import DeviceFacts

if TYPE_CHECKING:
    from cuprof.backends.contract import Backend, Runnable
    from cuprof.families import Program, Signature, Variant

GROUP = "cuprof.backends"
BUILT_IN = {name: f"cuprof.backends.built_in:{name.upper()}" for name in ("cuda", "opencl", "cpu", "program")}
"""Name → its `BackendSpec`, in display order."""


def list_backends() -> tuple[str, ...]:
    """Return every back end's name, those of installed packages last."""
    return list_plugins(GROUP, BUILT_IN)


def get_spec(backend: str) -> BackendSpec:
    """Return the facts about a back end.

    Raises:
        UnknownNameError: there is none of this name.
        UsageError: the package that brings it cannot be imported.
    """
    spec: BackendSpec = load_plugin(GROUP, backend, BUILT_IN, "back end")
    return spec


def find_spec(backend: str) -> BackendSpec | None:
    """Return the facts about a back end; None for one that only a database of another installation names."""
    return get_spec(backend) if backend in list_backends() else None


def open_backend(backend: str, number: int | None = None) -> Backend[Runnable]:
    """Open a back end; `number` is what `BackendSpec` says it is.

    Raises:
        CuprofError: it cannot be opened here; the message says why.
    """
    return _find(backend, "opener")(number)  # type: ignore[no-any-return]


def _find(backend: str, field: str) -> Any:
    """Return what a field of the description names, or None where it is empty."""
    name = getattr(get_spec(backend), field)
    return resolve_name(name) if name else None


def get_shared_memory(backend: str) -> Any:
    """Return the class of a back end's shared memory; see `BackendSpec.shared`."""
    return _find(backend, "shared")


def shares_memory(device: DeviceFacts) -> bool:
    """Return whether another process may own the memory that variants use on a device."""
    shared = get_shared_memory(device.backend)
    return shared is not None and (is_host(device) or not shared.is_host)


def find_facts(backend: str, number: int | None = None) -> DeviceFacts | None:
    """Return the facts of the device that would be opened; None if only the opened back end knows."""
    reader = _find(backend, "facts_reader")
    return reader(number) if reader else None


def find_builder(backend: str) -> Callable[[Variant, Program, str, Signature, str], list[bytes]] | None:
    """Return what compiles (variant, program, source text, signature, architecture) without a device, or None."""
    return _find(backend, "builder")  # type: ignore[no-any-return]


def list_devices(backend: str) -> list[ListedDevice]:
    """Return the devices of a back end, opening none of them."""
    return list(_find(backend, "lister")())


def count_devices(backend: str) -> int:
    """Return how many devices of a back end this process may open, opening none.

    Raises:
        CuprofError: none can be opened here; the message says why.
    """
    return int(_find(backend, "counter")())


def is_host(device: DeviceFacts | None) -> bool:
    """Return whether a device is the host's own processor, which OpenCL may offer too."""
    spec = find_spec(device.backend) if device else None
    return device is not None and ((spec is not None and spec.is_host) or device.details.get("type") == "CPU")
