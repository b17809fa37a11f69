"""Facts about a back end that need neither its device, its libraries nor its code."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cuprof.core.records import Measure

MARK_VARIABLE = "CUPROF_MARK"
"""The environment variable with the mark under which a profiler reads an executed process."""


DOUBLING, BROKEN = 0.15, 0.5
"""What each doubling of threads beyond the usual ones adds to the logarithm of a time, and how many doublings a block
counts as that is not a multiple."""


@dataclass(frozen=True)
class UsualBlock:
    """Say how many threads a block of most good kernels has: from, to, and a multiple of; by default any number."""

    least: int = 1
    most: float = math.inf
    multiple: int = 1

    def suppose(self, threads: int | None) -> float:
        """Return the logarithm of a block's time relative to a usual one's; 0 if the threads are not known."""
        if threads is None or threads < 1:
            return 0.0
        beyond = math.log2(max(self.least / threads, threads / self.most, 1.0))
        return DOUBLING * (beyond + BROKEN * (threads % self.multiple > 0))


@dataclass(frozen=True)
class LaunchLimits:
    """The largest launch on every device of a back end: blocks and threads along x, y and z, and threads a block.

    If devices differ, there is no bound here, and the device itself refuses.
    """

    grid: tuple[float, float, float] = (math.inf, math.inf, math.inf)
    block: tuple[float, float, float] = (math.inf, math.inf, math.inf)
    block_threads: float = math.inf


@dataclass(frozen=True)
class ListedDevice:
    """One device as `cuprof list devices` shows it; `index` chooses it."""

    index: int
    name: str
    details: str


@dataclass(frozen=True)
class BackendSpec:
    """Describe a back end: the one place for each fact about it. Functions and classes are named as "module:name".

    A back end's number, from the configuration's `setting`, is the ordinal of a device or a number of threads,
    depending on the back end. None means its default.

    Args:
        name: its name in families, the configuration and the store.
        title: its display name.
        timing_version: raise it when a change to the timing changes the meaning of a number; part of every method's
            hash.
        measures: the measures that it can time.
        setting: the setting that holds its number ("cuda" of `device.cuda`).
        opener: number → the opened `Backend`. Raises `CuprofError` with the reason if it cannot be opened here.
        lister: yields its devices as `ListedDevice`, opening none.
        counter: counts the devices that this process may open, opening none; raises as `opener`. Empty for one device.
        facts_reader: number → the device's facts without opening it, if that is quicker; raises as `opener`.
        imports: slow modules that a worker imports before its first job, once it has found a device.
        shared: the class of memory in which another process may let variants run (rows, rows and number, handle).
        unheeded: settings of `measure` without an effect on it.
        is_host: its device is the host's own processor.
        runs_in_process: its variants' own code runs in the worker's process, even while they are built. Leftovers of
            one (a thread, a corrupt heap) may then affect the next.
        limits: the largest launch of any of its devices.
        extended: its launches may be cooperative, have clusters, overlap, and take textures and tensor maps.
        steps: the steps that its programs may have, as class names in lower case.
        uses_cuda_headers: its sources may include CUDA's own headers, whose version is then part of their identity.
        builder: compiles a program for a named architecture without a device, and raises if the compiler refuses.
        times_by_profile: its kernel times are those of the driver's profiling events, which vary from sweep to sweep.
        usual_block: the threads per block that are usually best on all its devices; a search begins with them.
    """

    name: str
    title: str
    timing_version: int
    measures: tuple[Measure, ...]
    setting: str
    opener: str
    lister: str
    counter: str = ""
    facts_reader: str = ""
    imports: tuple[str, ...] = ()
    shared: str = ""
    unheeded: frozenset[str] = frozenset()
    is_host: bool = False
    runs_in_process: bool = False
    limits: LaunchLimits = LaunchLimits()
    extended: bool = False
    steps: tuple[str, ...] = ("launch", "fill", "copy")
    uses_cuda_headers: bool = False
    builder: str = ""
    times_by_profile: bool = False
    usual_block: UsualBlock = UsualBlock()
