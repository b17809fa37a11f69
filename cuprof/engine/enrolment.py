"""Which stations a sweep has, and which devices each of them works on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from cuprof.backends.registry import count_devices, is_host
from cuprof.config.model import DeviceConfig, SweepConfig
from cuprof.core.errors import CuprofError, UsageError, WorkerError
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.engine.device_lock import lock_name
from cuprof.engine.runner import MOST_KILLS, JobRunner, is_from_outside
from cuprof.engine.station import Station
from cuprof.worker.messages import Describe, Described, WorkerSettings


def make_stations(config: SweepConfig) -> list[Station]:
    """Return a station for each requested GPU, at least one; no worker is started yet.

    Raises:
        UsageError: there are GPUs, but not every requested one.
    """
    numbers, ordinals = config.device.numbers(), list_ordinals(config.device)
    every = [numbers]
    if len(ordinals) > 1:
        # OpenCL usually numbers GPUs as CUDA does; if not, their descriptions show it later.
        opencl = numbers["opencl"]
        every = [{**numbers, "cuda": each, "opencl": each if opencl is None else opencl} for each in ordinals]
    return [Station(JobRunner(WorkerSettings(each, len(every)), config.limits)) for each in every]


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
    try:
        return count_devices("cuda")
    except CuprofError:
        return 0  # the plan reports why


def enroll(config: SweepConfig, stations: list[Station], backends: tuple[str, ...]) -> list[str]:
    """Give each station its devices, drop stations that cannot take part, and return the reasons, one line each.

    Trials are planned for the devices of the first station, whose GPU must work. The other stations' devices must agree
    in everything that is part of a trial's identity. If two stations have the same physical device, the second does
    without it.

    Raises:
        UsageError: a GPU that was named cannot take part.
    """
    describe_all(config, stations, backends)
    stations.sort(key=lambda station: -len(station.accelerators))  # in the order of their numbers, but for broken ones
    taken: set[str] = set()
    notes: list[str] = []
    first = stations[0]
    for station in list(stations):
        if station is not first:
            reasons = [reason for backend in backends if (reason := _withdraw(station, first, backend, taken))]
            if not station.accelerators:
                stations.remove(station)
                station.runner.replace_worker()
                if not first.accelerators:
                    continue  # no part of it runs on a GPU, or the plan reports why there is none
                note = f"device.cuda={station.runner.settings.numbers['cuda']} takes no part: {'; '.join(reasons)}"
                if config.device.cuda_ordinals:
                    raise UsageError(f"{note}; leave it out of device.cuda")
                notes.append(note)
        taken |= {lock_name(device) for device in station.accelerators}
    return notes


def describe_all(config: SweepConfig, stations: Sequence[Station], backends: tuple[str, ...]) -> None:
    """Fill in the devices of stations; several are asked at once, since a driver takes a second to start."""
    if len(stations) == 1:
        stations[0].devices = find_devices(config, stations[0].runner, backends)
        return
    begun = [station.runner.worker.pid for station in stations]
    with ThreadPoolExecutor(len(stations)) as pool:
        found = pool.map(lambda station: find_devices(config, station.runner, backends), stations)
        for station, devices in zip(stations, found, strict=True):
            station.devices = devices
    for station, pid in zip(stations, begun, strict=True):
        if station.runner.worker.pid != pid:  # Linux ends a worker with the thread that started it
            station.runner.replace_worker()


def _withdraw(station: Station, first: Station, backend: str, taken: set[str]) -> str:
    """Take a device from a station where it cannot share the first one's work; return why, or the empty text."""
    device, wanted = station.devices[backend], first.devices[backend]
    if not isinstance(device, DeviceFacts):
        return str(device) if isinstance(wanted, DeviceFacts) else ""
    reason = ""
    if not isinstance(wanted, DeviceFacts):
        reason = f"the first station has no {backend} device"
    elif device.identity != wanted.identity:
        reason = f"{device.name} is not equal to the first device, {wanted.name}"
    elif not is_host(device) and lock_name(device) in taken:
        reason = f"its {backend} device is another station's"
    if reason:
        station.devices = {**station.devices, backend: Unavailable(reason)}
    return reason


def find_devices(
    config: SweepConfig, runner: JobRunner, backends: tuple[str, ...]
) -> dict[str, DeviceFacts | Unavailable]:
    """Return each back end's device, or why there is none or none is wanted."""
    devices: dict[str, DeviceFacts | Unavailable] = {}
    for backend in backends:  # one at a time: a driver that takes the worker down costs its own back end alone
        if backend not in config.device.backends:
            devices[backend] = Unavailable(f"device.backends leaves {backend} out", f"device.backends=[{backend}]")
            continue
        for trial in range(MOST_KILLS + 1):
            try:
                devices |= runner.worker.ask(Describe((backend,)), Described).devices
                break
            except WorkerError as error:
                runner.replace_worker()
                devices[backend] = Unavailable(f"the worker could not open it: {error}")
                if trial == MOST_KILLS or not is_from_outside(error):
                    break
    return devices
