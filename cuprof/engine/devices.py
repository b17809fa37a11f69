"""Which executors a sweep has, and which devices each of them works on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

from cuprof.backends.registry import count_devices, is_host
from cuprof.config.model import DeviceConfig, SweepConfig
from cuprof.core.errors import CuprofError, UsageError, WorkerError
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.engine.device_lock import lock_name
from cuprof.engine.executor import Executor
from cuprof.engine.worker_process import MOST_KILLS, WorkerDiedError
from cuprof.worker.messages import Describe, WorkerSettings

_known: dict[tuple[str, int | None], DeviceFacts] = {}
"""Devices by back end and number, as a worker has described them: for each further sweep of a command, another would
take 0.2 s to say the same."""


@contextmanager
def open_executors(config: SweepConfig) -> Iterator[list[Executor]]:
    """Yield the executors of `make_executors`, and end their workers."""
    with ExitStack() as stack:
        yield [stack.enter_context(executor) for executor in make_executors(config)]


def make_executors(config: SweepConfig) -> list[Executor]:
    """Return an executor for each requested GPU, at least one; no worker is started yet.

    Raises:
        UsageError: there are GPUs, but not every requested one.
    """
    numbers, ordinals = config.device.numbers(), list_ordinals(config.device)
    every = [numbers]
    if len(ordinals) > 1:
        # OpenCL usually numbers GPUs as CUDA does; if not, their descriptions show it later.
        opencl = numbers["opencl"]
        every = [{**numbers, "cuda": each, "opencl": each if opencl is None else opencl} for each in ordinals]
    return [Executor(WorkerSettings(each, len(every)), config.limits) for each in every]


def list_ordinals(device: DeviceConfig) -> tuple[int, ...]:
    """Return the CUDA devices that are named, or those that "all" or "each" stand for."""
    if device.cuda[0] in ("all", "each") and "cuda" in device.backends:
        return tuple(range(_count_gpus()))
    highest = max(device.cuda_ordinals, default=0)
    if highest and "cuda" in device.backends and 0 < (count := _count_gpus()) <= highest:
        found = "there is one GPU, 0" if count == 1 else f"there are {count} GPUs, 0 to {count - 1}"
        raise UsageError(f"device.cuda={','.join(device.cuda)}: {found}")
    return device.cuda_ordinals


def _count_gpus() -> int:
    with suppress(CuprofError):  # the plan reports why
        return count_devices("cuda")
    return 0


def enroll(config: SweepConfig, executors: list[Executor], backends: tuple[str, ...]) -> list[str]:
    """Give each executor its devices, drop those that cannot take part, and return the reasons, one line each.

    Trials are planned for the devices of the first executor, whose GPU must work. The others' devices must agree in
    everything that is part of a trial's identity. If two executors have the same physical device, the second does
    without it.

    Raises:
        UsageError: a GPU that was named cannot take part.
    """
    describe_all(config, executors, backends)
    executors.sort(key=lambda executor: -len(executor.accelerators))  # by their numbers, but for broken ones
    first, *others = executors
    taken = {lock_name(device) for device in first.accelerators}
    notes: list[str] = []
    for executor in others:
        reasons = [reason for backend in backends if (reason := _withdraw(executor, first, backend, taken))]
        taken |= {lock_name(device) for device in executor.accelerators}
        if executor.accelerators:
            continue
        executors.remove(executor)
        executor.drop_worker()
        if first.accelerators:  # else no part of it runs on a GPU, or the plan reports why there is none
            note = f"device.cuda={executor.settings.numbers['cuda']} takes no part: {'; '.join(reasons)}"
            if config.device.cuda_ordinals:
                raise UsageError(f"{note}; leave it out of device.cuda")
            notes.append(note)
    return notes


def describe_all(config: SweepConfig, executors: Sequence[Executor], backends: tuple[str, ...]) -> None:
    """Fill in the devices of executors; several are asked at once, since a driver takes a second to start."""
    if len(executors) == 1:
        executors[0].devices = find_devices(config, executors[0], backends)
        return
    begun = [executor.worker for executor in executors]
    with ThreadPoolExecutor(len(executors)) as pool:
        found = pool.map(lambda executor: find_devices(config, executor, backends), executors)
        for executor, devices in zip(executors, found, strict=True):
            executor.devices = devices
    for executor, worker in zip(executors, begun, strict=True):
        if executor.worker is not worker:  # Linux ends a worker with the thread that started it
            executor.drop_worker()


def _withdraw(executor: Executor, first: Executor, backend: str, taken: set[str]) -> str:
    """Take a device from a executor where it cannot share the first one's work; return why, or the empty text."""
    device, wanted = executor.devices[backend], first.devices[backend]
    if not isinstance(device, DeviceFacts):
        return str(device) if isinstance(wanted, DeviceFacts) else ""
    reason = ""
    if not isinstance(wanted, DeviceFacts):
        reason = f"the first executor has no {backend} device"
    elif device.identity != wanted.identity:
        reason = f"{device.name} is not equal to the first device, {wanted.name}"
    elif not is_host(device) and lock_name(device) in taken:
        reason = f"its {backend} device is another executor's"
    if reason:
        executor.devices = {**executor.devices, backend: Unavailable(reason)}
    return reason


def find_devices(
    config: SweepConfig, executor: Executor, backends: tuple[str, ...]
) -> dict[str, DeviceFacts | Unavailable]:
    """Return each back end's device, or why there is none or none is wanted."""
    devices: dict[str, DeviceFacts | Unavailable] = {}
    for backend in backends:  # one at a time: a driver that takes the worker down costs its own back end alone
        if backend not in config.device.backends:
            devices[backend] = Unavailable(f"device.backends leaves {backend} out", f"device.backends=[{backend}]")
            continue
        place = backend, executor.settings.numbers.get(backend)
        if known := _known.get(place):
            devices[backend] = known
            continue
        for _ in range(MOST_KILLS + 1):
            try:
                found = devices[backend] = executor.worker.ask(Describe(backend), DeviceFacts, Unavailable)
                if isinstance(found, DeviceFacts):
                    _known[place] = found
                break
            except WorkerError as error:
                executor.drop_worker()
                devices[backend] = Unavailable(f"the worker could not open it: {error}")
                if not (isinstance(error, WorkerDiedError) and error.is_from_outside):
                    break
    return devices
