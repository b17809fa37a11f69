"""Every back end by name; one is described without loading what it needs, and loaded when it is opened."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from cuprof.backends.spec import BackendSpec
from cuprof.errors import UnknownNameError

PACKAGES = {
    "cuda": "cuprof.backends.cuda",
    "opencl": "cuprof.backends.opencl",
    "cpu": "cuprof.backends.cpu",
}
"""Name → package, whose module `spec` holds its `BackendSpec` as SPEC; in the order in which people are shown them."""


def list_backends() -> tuple[str, ...]:
    """Return every back end's name."""
    return tuple(PACKAGES)


@cache
def get_spec(backend: str) -> BackendSpec:
    """Return what is known of a back end.

    Raises:
        UnknownNameError: there is none of this name.
    """
    if backend not in PACKAGES:
        raise UnknownNameError("back end", backend, PACKAGES)
    spec: BackendSpec = importlib.import_module(f"{PACKAGES[backend]}.spec").SPEC
    return spec


def is_host(backend: str, details: Mapping[str, Any]) -> bool:
    """Return whether a device with these details is the host's own processor, which OpenCL may offer too."""
    return (backend in PACKAGES and get_spec(backend).is_host) or details.get("type") == "CPU"
