"""Facts about a back end that need neither its device, its libraries nor its code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from cuprof.core.records import Measure
from cuprof.search.usual_block import ANY_BLOCK, UsualBlock

MARK_VARIABLE = "CUPROF_MARK"
"""The environment variable with the mark under which a profiler reads an executed process."""


class NoiseSource(StrEnum):
    """Name what an accelerator's kernel times vary with from one sweep to the next; a host's vary with its load."""

    LAUNCHES = "launches"  # how many launches an execution makes
    EVENTS = "events"  # the driver's profiling events


@dataclass(frozen=True)
class LaunchLimits:
    """What every device of a back end launches at most: blocks and threads along x, y and z, and threads a block.

    Where that differs from device to device there is no bound, and the device refuses.
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

    A back end's number, which `setting` takes from the configuration, means what that back end says: the ordinal of a
    device, or how many threads to use. None stands for its default.

    Args:
        name: as families, the configuration and the store write it.
        title: as people write it.
        timing_version: raised whenever a change of its timing changes what a number means; part of every method's hash.
        measures: what it can time.
        setting: the setting that holds its number ("cuda" of `device.cuda`).
        opener: number → the opened `Backend`. Raises `CuprofError` where it cannot be opened here, saying why.
        lister: yields its devices as `ListedDevice`, opening none.
        counter: how many devices this process may open, opening none; raises as `opener`. Empty where it is never asked
            for several.
        facts_reader: number → the device's facts without opening it, where that is quicker; raises as `opener`.
        imports: modules that opening it imports and that take long; a worker imports them while it waits for its first
            job, once it has found a device.
        unheeded: settings of `measure` without an effect on it.
        is_host: its device is the host's own processor.
        runs_in_process: its variants' own code runs in the worker's process, already while they are built, so that
            what one leaves there (a thread, a spoilt heap) may be what happens to the next one.
        builds_ahead: its compilers work beside the worker's own code, so that a worker lost while building is given the
            same trials once more, without building ahead, before one of them is blamed.
        limits: the most that any device of it launches.
        cooperative: it has launches all of whose blocks are on the device together.
        extended: its launches may have clusters, overlap, and take textures and tensor maps.
        steps: the steps that its programs are made of, by the names of their classes in lower case.
        uses_cuda_headers: its sources may include CUDA's own headers, whose version is then part of their identity.
        builder: compiles a program for a named architecture without a device, raising where the compiler refuses;
            empty where only a device's driver can compile.
        noise: what its kernel times vary with from sweep to sweep.
        usual_block: how many threads a block are best as a rule on all of its devices, with which a search begins.
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
    unheeded: frozenset[str] = frozenset()
    is_host: bool = False
    runs_in_process: bool = False
    builds_ahead: bool = True
    limits: LaunchLimits = LaunchLimits()
    cooperative: bool = False
    extended: bool = False
    steps: tuple[str, ...] = ("launch", "fill", "copy")
    uses_cuda_headers: bool = False
    builder: str = ""
    noise: NoiseSource = NoiseSource.LAUNCHES
    usual_block: UsualBlock = ANY_BLOCK

    def heeds(self, setting: str) -> bool:
        """Return whether a setting of `measure` has an effect on it."""
        return setting not in self.unheeded
