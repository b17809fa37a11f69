"""The back end for whole executables: the GPU that they find, or the host where there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cuprof.backends.built_in import PROGRAM
from cuprof.backends.contract import Backend, ReadingOptions
from cuprof.backends.program.session import ProgramRunnable, ProgramSession
from cuprof.backends.registry import find_facts, open_backend
from cuprof.backends.registry import list_devices as list_devices_of
from cuprof.backends.spec import ListedDevice
from cuprof.builds import Build, BuildPool
from cuprof.builds.native import NativeBuild
from cuprof.core.errors import CuprofError
from cuprof.core.records import Calibration, DeviceFacts
from cuprof.families import Arrays, Program, Signature, Variant


class ProgramBackend(Backend[ProgramRunnable]):
    """Processes on this host.

    Args:
        index: the one GPU that they are let see; None lets them see all, of which they take the first.
    """

    spec = PROGRAM

    def __init__(self, index: int | None = None, cache: BuildPool | None = None) -> None:
        self.index, self.cache = index, cache or BuildPool()
        facts = _device_facts(index)
        self.has_gpu = facts.backend == "cuda"
        self._driven_by = (facts.backend, index if self.has_gpu else None)
        self._facts = replace(facts, backend=PROGRAM.name)

    @property
    def arch(self) -> str:
        """Return what nvcc compiles for."""
        capability = str(self._facts.details.get("compute_capability", ""))
        return f"sm_{capability.replace('.', '')}" if capability else ""

    def facts(self) -> DeviceFacts:
        """Return the facts about the GPU, or about the host's processor without one."""
        return self._facts

    def calibrate(self) -> Calibration:
        """Let the back end that drives the device measure it."""
        return replace(open_backend(*self._driven_by).calibrate(), backend=PROGRAM.name)

    def list_builds(self, signature: Signature, variant: Variant, program: Program, text: str) -> Sequence[Build]:
        """Return what becomes the executable, where that is compiled; see `Backend.list_builds`."""
        return [NativeBuild.of(variant, program, text, "program", self.arch)] if variant.compiler else ()

    def open(
        self, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int = 0
    ) -> ProgramSession:
        """Make the folder in which the programs run."""
        return ProgramSession(self.cache, self.has_gpu, self.arch, self.index, signature, inputs)


def _device_facts(index: int | None) -> DeviceFacts:
    try:
        facts = find_facts("cuda", index)
    except CuprofError:
        if index is not None:
            raise
        facts = None
    if facts is not None:
        return facts
    host = open_backend("cpu").facts()
    return replace(host, details={**host.details, "type": "CPU"})


def list_devices() -> Iterator[ListedDevice]:
    """Yield what programs may run on: the GPUs, or the host."""
    yield from list_devices_of("cuda") or list_devices_of("cpu")
