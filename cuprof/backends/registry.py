"""The back ends that come with cuprof, and how any is looked up by name.

A description loads nothing; opening a back end loads its dependencies. A package adds one by an entry
point of the group `cuprof.backends` that names its `BackendSpec`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from cuprof.backends.spec import BackendSpec, LaunchLimits, ListedDevice, UsualBlock
from cuprof.core.plugins import list_plugins, load_plugin
from cuprof.core.records import DeviceFacts, Measure

if TYPE_CHECKING:
    from cuprof.backends.contract import Backend, Runnable
    from cuprof.families import Program, Signature, Variant

CUDA = BackendSpec(
    name="cuda",
    title="CUDA",
    timing_version=5,
    measures=(Measure.COLD, Measure.HOT, Measure.TOTAL),
    setting="cuda",
    opener="cuprof.backends.cuda.backend:CudaBackend",
    facts_reader="cuprof.backends.cuda.presence:find_facts",
    imports=("cupy",),
    shared="cuprof.backends.cuda.memory:SharedCudaMemory",
    counter="cuprof.backends.cuda.presence:count_devices",
    lister="cuprof.backends.cuda.presence:list_devices",
    # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the same from 5.0 to 12.x.
    limits=LaunchLimits(grid=(2**31 - 1, 65535, 65535), block=(1024, 1024, 64), block_threads=1024),
    extended=True,
    steps=("launch", "fill", "copy", "repeat", "invoke"),
    uses_cuda_headers=True,
    builder="cuprof.backends.cuda.loading:build_images",
    # The CUDA C++ Best Practices Guide begins with 128 to 256, of whole warps.
    usual_block=UsualBlock(128, 512, multiple=32),
)
OPENCL = BackendSpec(
    name="opencl",
    title="OpenCL",
    timing_version=3,
    measures=(Measure.COLD, Measure.HOT, Measure.TOTAL),
    setting="opencl",
    opener="cuprof.backends.opencl.backend:OpenClBackend",
    lister="cuprof.backends.opencl.presence:list_devices",
    shared="cuprof.backends.cpu.memory:SharedHostMemory",  # of a device that is the host's own processor
    unheeded=frozenset({"graph", "timer"}),
    times_by_profile=True,
    # CLBlast's tuning database, 12 kernels: 93 % of 406 bests on AMD's GPUs lie there, 80 % of 763 on NVIDIA's; nine
    # in ten are multiples of 64. HIP's performance guidelines say 128 to 256, in multiples of 64.
    usual_block=UsualBlock(64, 256, multiple=64),
)
CPU = BackendSpec(
    name="cpu",
    title="CPU",
    timing_version=5,
    measures=(Measure.COLD, Measure.HOT),  # there is no transfer that total time could include
    setting="cpu_threads",
    opener="cuprof.backends.cpu.backend:CpuBackend",
    lister="cuprof.backends.cpu.processor:list_devices",
    shared="cuprof.backends.cpu.memory:SharedHostMemory",
    unheeded=frozenset({"blocking", "graph", "timer", "clock_tolerance", "energy"}),
    is_host=True,
    runs_in_process=True,
    steps=("invoke",),
)
PROGRAM = BackendSpec(
    name="program",
    title="Program",
    timing_version=1,
    measures=(Measure.COLD, Measure.TOTAL),  # a process runs once: nothing of it can be hot
    setting="cuda",
    opener="cuprof.backends.program.backend:ProgramBackend",
    lister="cuprof.backends.program.backend:list_devices",
    unheeded=frozenset({"flush", "blocking", "graph", "timer", "host_memory", "energy"}),
    steps=("execute",),
)

GROUP = "cuprof.backends"
BUILT_IN = {name: f"cuprof.backends.registry:{name.upper()}" for name in ("cuda", "opencl", "cpu", "program")}
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


def begin_to_open(backend: str) -> None:
    """Import what `open_backend` needs, and start what works beside it, such as a compiler.

    Then another thread may open it: two threads that import the same packages may find one of them half made.
    """
    with suppress(Exception):  # which opening reports
        for module in get_spec(backend).imports:
            import_module(module)
        getattr(_find(backend, "opener"), "begin_to_open", bool)()


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
