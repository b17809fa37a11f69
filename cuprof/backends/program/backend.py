"""The back end for whole executables: the GPU that they find, or the host where there is none.

Their arrays are files in a folder.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import numpy as np

from cuprof.backends.contract import Backend, Draw, Draws, Frame, Reading, ReadingOptions, Runnable, Session
from cuprof.backends.program.files import FileMemory, read_numbers
from cuprof.backends.program.kernel_clock import busy_ns, install_clock, own_build, read_records
from cuprof.backends.registry import PROGRAM, find_facts, open_backend
from cuprof.backends.registry import list_devices as list_devices_of
from cuprof.backends.spec import MARK_VARIABLE, ListedDevice
from cuprof.builds import Build
from cuprof.builds.native import NativeBuild
from cuprof.builds.ptxas import most_of
from cuprof.core.errors import CuprofError, LaunchError
from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, Calibration, DeviceFacts, Measure
from cuprof.families import Arrays, Execute, File, Program, Signature, Variant
from cuprof.families.sources import to_bytes


@dataclass
class ProgramRunnable(Runnable):
    """An existing executable and its command lines.

    Attributes:
        processes: the commands of one execution, in order.
        files: those among their arguments.
        printed: the output of each in the last execution.
    """

    name: str = ""
    executable: Path = Path()
    processes: tuple[Execute, ...] = ()
    files: tuple[File, ...] = ()
    printed: list[str] = field(default_factory=list)


class ProgramSession(Session[ProgramRunnable]):
    """A folder in which programs run, with the inputs in files."""

    backend: ProgramBackend
    memory: FileMemory
    memories = FileMemory

    def __init__(self, backend: ProgramBackend, signature: Signature, inputs: Arrays, *_: object) -> None:
        super().__init__(backend, signature, inputs, ReadingOptions())
        self.folder = self.memory.folder
        visible = {} if backend.index is None else {"CUDA_VISIBLE_DEVICES": str(backend.index)}
        self.environment = {**os.environ, **visible}
        self._recording: dict[str, str] | None = None

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> ProgramRunnable:
        """Build the executable, or write the one that was handed in."""
        assert program is not None
        started = time.monotonic_ns()
        build = BuildFacts()
        image = to_bytes(text)
        if variant.compiler:
            (build_of,) = self.backend.list_builds(self.signature, variant, program, text)
            built, cached = self.backend.cache.compile(build_of)
            image = built.image
            build = replace(most_of(built.kernels.values()), cached=cached, log=built.log)
        executable = Path(tempfile.mkdtemp(dir=self.folder), Path(variant.source or variant.name).stem)
        executable.write_bytes(image)
        executable.chmod(0o755)
        processes = tuple(step for step in program.steps if isinstance(step, Execute))
        runnable = ProgramRunnable(
            lambda: self._run(runnable, {}),
            build=replace(build, build_ns=time.monotonic_ns() - started),
            steps=len(processes),
            name=variant.name,
            executable=executable,
            processes=processes,
            files=tuple(word for step in processes for word in step.arguments if isinstance(word, File)),
        )
        return runnable

    def fetch(self, runnable: ProgramRunnable) -> dict[str, np.ndarray]:
        """Read the outputs from their files, or from the printed text.

        Raises:
            LaunchError: a file is missing or has another size, or too few numbers were printed.
        """
        outputs, name = self.signature.outputs, runnable.name
        files = [file for file in runnable.files if file.buffer in outputs]
        found = {file.buffer: self.memory.read_file(file, outputs[file.buffer], name) for file in files}
        for step, printed in zip(runnable.processes, runnable.printed, strict=False):  # nothing before it has run
            if step.stdout:
                found[step.stdout] = read_numbers(printed, outputs[step.stdout], f"{name} printed")
        if absent := [each for each in outputs if each not in found]:
            raise LaunchError(f"{name} has not run, and gives no {', '.join(absent)}")
        return found

    def begin(self, runnable: ProgramRunnable, measure: Measure, batch: int = 1, draw: Draws = Draw) -> Frame:
        """Run the program and return its wall time (total), or its kernels' time on the GPU (cold).

        Of a program that uses no GPU the cold time is its wall time too.
        """
        self.give(runnable, draw())
        if measure is Measure.TOTAL or not self.backend.has_gpu:
            wall_ns = self._run(runnable, {})
            return lambda: Reading(wall_ns)
        if self._recording is None:
            self._recording = install_clock(self.backend.cache, self.folder)
        wall_ns = self._run(runnable, self._recording)
        records = read_records(self.folder)
        if not records:
            return lambda: Reading(wall_ns)
        runnable.build = replace(
            runnable.build,
            registers=max(each.registers for each in records),
            shared_bytes=max(each.shared_bytes for each in records),
        )
        return lambda: Reading(float(busy_ns(records)))

    def _run(self, runnable: ProgramRunnable, environment: Mapping[str, str]) -> float:
        """Run each step's process to its end; return nanoseconds of the host's clock in all.

        Raises:
            LaunchError: it could not be started, or did not end with 0.
        """
        runnable.printed, spent_ns = [], 0
        for file in runnable.files:
            self.memory.provide(self.inputs.get(file.buffer) or self.outputs[file.buffer], file)
        for step in runnable.processes:
            words = [self.memory.path(word) if isinstance(word, File) else word for word in step.arguments]
            command = [str(runnable.executable), *map(str, words)]
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                started = time.perf_counter_ns()
                try:
                    status = subprocess.run(
                        command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.folder,
                        env={**self.environment, **environment, **self._marked(), **step.environment}, check=False,
                    ).returncode  # fmt: skip
                except OSError as error:
                    raise LaunchError(f"{runnable.name} cannot be started: {error.strerror or error}") from None
                spent_ns += time.perf_counter_ns() - started
                said = _content(err).strip().splitlines() or _content(out).strip().splitlines()
                if status:
                    ended = f"by signal {-status}" if status < 0 else f"with {status}"
                    last = f": {said[-1]}" if said else ""
                    raise LaunchError(f"{shlex.join([runnable.name, *command[1:]])} ended {ended}{last}")
                runnable.printed.append(_content(out))
        return float(spent_ns)

    def _marked(self) -> dict[str, str]:
        """Return environment variables that make a process open a profiler's mark, if there is one."""
        if MARK_VARIABLE not in os.environ:
            return {}
        place = self.folder / "mark.so"
        if not place.exists():
            place.write_bytes(self.backend.cache.compile(own_build("mark.c", "gcc"))[0].image)
        return {MARK_VARIABLE: os.environ[MARK_VARIABLE], "LD_PRELOAD": str(place)}


class ProgramBackend(Backend[ProgramRunnable]):
    """Processes on this host.

    Args:
        index: the one GPU that they are let see; None lets them see all, of which they take the first.
    """

    spec = PROGRAM
    sessions = ProgramSession

    def __init__(self, index: int | None = None) -> None:
        self.index = index
        facts = _device_facts(index)
        self.has_gpu = facts.backend == "cuda"
        self._driven_by = (facts.backend, index if self.has_gpu else None)
        self._facts = replace(facts, backend=PROGRAM.name)

    def facts(self) -> DeviceFacts:
        """Return the facts about the GPU, or about the host's processor without one."""
        return self._facts

    def calibrate(self) -> Calibration:
        """Let the back end that drives the device measure it."""
        return replace(open_backend(*self._driven_by).calibrate(), backend=PROGRAM.name)

    def list_builds(self, signature: Signature, variant: Variant, program: Program, text: str) -> Sequence[Build]:
        """Return what becomes the executable, where that is compiled; see `Backend.list_builds`."""
        capability = str(self._facts.details.get("compute_capability", ""))
        arch = f"sm_{capability.replace('.', '')}" if capability else ""  # which nvcc compiles for
        return [NativeBuild.of(variant, program, text, "program", arch)] if variant.compiler else ()


def _device_facts(index: int | None) -> DeviceFacts:
    try:
        if facts := find_facts("cuda", index):
            return facts
    except CuprofError:
        if index is not None:
            raise
    host = open_backend("cpu").facts()
    return replace(host, details={**host.details, "type": "CPU"})


def list_devices() -> Iterator[ListedDevice]:
    """Yield what programs may run on: the GPUs, or the host."""
    yield from list_devices_of("cuda") or list_devices_of("cpu")


def _content(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")
