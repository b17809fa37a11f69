"""One problem's inputs as files, and the executables that read them."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np

from cuprof.backends.contract import POISON_BYTE, Draw, Draws, Frame, InputSet, Reading, Session, first_draw
from cuprof.backends.program.kernel_clock import KernelClock, busy_ns, own_build
from cuprof.backends.spec import MARK_VARIABLE
from cuprof.builds import BuildPool
from cuprof.builds.native import NativeBuild
from cuprof.builds.ptxas import most_of
from cuprof.core.errors import LaunchError
from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, Measure
from cuprof.families import Array, Arrays, Execute, File, Program, Signature, Variant
from cuprof.families.sources import to_bytes

NUMBER = re.compile(r"[-+]?(?:inf\b|nan\b|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)", re.IGNORECASE)
ENDINGS = {"raw": "bin", "npy": "npy", "text": "txt"}


@dataclass
class ProgramRunnable:
    """An existing executable and its command lines.

    Attributes:
        processes: the commands of one execution, in order.
        printed: the output of each in the last execution.
    """

    name: str
    executable: Path
    processes: tuple[Execute, ...]
    build: BuildFacts = field(default_factory=BuildFacts)
    printed: list[str] = field(default_factory=list)
    launch_phases: int = 1

    @property
    def steps(self) -> int:
        """Return how many processes one execution starts."""
        return len(self.processes)

    def files(self, buffers: Container[str]) -> list[File]:
        """Return the files among its arguments that stand for one of these buffers."""
        words = chain.from_iterable(step.arguments for step in self.processes)
        return [word for word in words if isinstance(word, File) and word.buffer in buffers]


class ProgramSession(Session[ProgramRunnable]):
    """A folder in which programs run, with the inputs in files.

    Args:
        clock: reads kernels' times, if there is a GPU.
        index: the GPU visible to programs; None for all.
    """

    def __init__(
        self,
        cache: BuildPool,
        clock: KernelClock | None,
        arch: str,
        index: int | None,
        signature: Signature,
        inputs: Arrays,
    ) -> None:
        self.cache, self.clock, self.arch, self.signature = cache, clock, arch, signature
        self._owner = tempfile.TemporaryDirectory(prefix="cuprof-program-")
        self.folder = Path(self._owner.name)
        self.environment = dict(os.environ) if index is None else {**os.environ, "CUDA_VISIBLE_DEVICES": str(index)}
        self._contents: list[Arrays] = [inputs]
        self._given: Arrays = inputs
        self._written: dict[Path, tuple[np.ndarray, bytes]] = {}
        """The content of each written file: the input, and its bytes there."""
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
            built, cached = self.cache.compile(NativeBuild.of(variant, program, text, "program", self.arch))
            image = built.image
            build = replace(most_of(built.kernels.values()), cached=cached, log=built.log)
        executable = Path(tempfile.mkdtemp(dir=self.folder), Path(variant.source or variant.name).stem)
        executable.write_bytes(image)
        executable.chmod(0o755)
        steps = tuple(step for step in program.steps if isinstance(step, Execute))
        return ProgramRunnable(variant.name, executable, steps, replace(build, build_ns=time.monotonic_ns() - started))

    def poison(self, runnable: ProgramRunnable, byte: int = POISON_BYTE) -> None:
        """Fill the output files, and drop the printed output."""
        runnable.printed = []
        for file in runnable.files(self.signature.outputs):
            if file.buffer in self._given:
                self._path(file).write_bytes(_encode(np.asarray(self._given[file.buffer]), file.format))
            else:
                self._path(file).write_bytes(bytes([byte]) * self.signature.outputs[file.buffer].nbytes)

    def repeat(self, runnable: ProgramRunnable, count: int) -> None:
        """Run the program `count` times."""
        self._provide(runnable)
        for _ in range(count):
            self._run(runnable, self.environment)

    def damaged_inputs(self) -> tuple[str, ...]:
        """Return the inputs whose files were written to."""
        changed = [path for path, (_, content) in self._written.items() if not _holds(path, content)]
        return tuple(dict.fromkeys(path.stem for path in changed))

    def overrun_arrays(self) -> tuple[str, ...]:
        """Return nothing: a file's size is checked when it is read."""
        return ()

    def restore_inputs(self, inputs: Arrays) -> None:
        """Mark the files to be written again."""
        self._written, self._given = {}, inputs

    def fetch(self, runnable: ProgramRunnable) -> dict[str, np.ndarray]:
        """Read the outputs from their files, or from the printed text.

        Raises:
            LaunchError: a file is missing or has another size, or too few numbers were printed.
        """
        outputs, name = self.signature.outputs, runnable.name
        found = {file.buffer: self._read_file(file, outputs[file.buffer], name) for file in runnable.files(outputs)}
        for step, printed in zip(runnable.processes, runnable.printed, strict=False):  # nothing before it has run
            if step.stdout:
                found[step.stdout] = _read_numbers(printed, outputs[step.stdout], f"{name} printed")
        if absent := [each for each in outputs if each not in found]:
            raise LaunchError(f"{name} has not run, and gives no {', '.join(absent)}")
        return found

    def stock(self, sets: Sequence[InputSet]) -> int:
        """Keep the contents of the sets."""
        self._contents = [each.inputs for each in sets]
        return len(self._contents)

    def execute(self, runnable: ProgramRunnable, *draws: Draw) -> None:
        """Run the program once as each draw says."""
        for draw in draws:
            self._give(runnable, draw)
            self._run(runnable, self.environment)

    def begin(self, runnable: ProgramRunnable, measure: Measure, batch: int = 1, draw: Draws = first_draw) -> Frame:
        """Run the program and return its wall time (total), or its kernels' time on the GPU (cold).

        Of a program that uses no GPU the cold time is its wall time too.
        """
        self._give(runnable, draw())
        if measure is Measure.TOTAL or self.clock is None:
            return Frame.ended(Reading(self._run(runnable, self.environment)))
        if self._recording is None:
            self._recording = self.clock.install(self.folder)
        wall_ns = self._run(runnable, {**self.environment, **self._recording})
        records = self.clock.read(self.folder)
        if not records:
            return Frame.ended(Reading(wall_ns))
        runnable.build = replace(
            runnable.build,
            registers=max(each.registers for each in records),
            shared_bytes=max(each.shared_bytes for each in records),
        )
        return Frame.ended(Reading(float(busy_ns(records))))

    def close(self) -> None:
        """Remove the folder."""
        self._owner.cleanup()
        self._contents, self._given, self._written = [], {}, {}

    def command(self, runnable: ProgramRunnable, step: Execute) -> list[str]:
        """Return the command line of one step."""
        words = [str(self._path(word)) if isinstance(word, File) else str(word) for word in step.arguments]
        return [str(runnable.executable), *words]

    def _give(self, runnable: ProgramRunnable, draw: Draw) -> None:
        self._given = self._contents[draw.inputs]
        self.poison(runnable, draw.fill)
        for path in [path for path, (_, content) in self._written.items() if not _holds(path, content)]:
            del self._written[path]  # overwritten by an execution: write it again
        self._provide(runnable)

    def _provide(self, runnable: ProgramRunnable) -> None:
        """Write the inputs that are in place into the files that the program reads."""
        for file in runnable.files(self.signature.inputs):
            path, array = self._path(file), self._given[file.buffer]
            if path not in self._written or self._written[path][0] is not array:
                self._written[path] = (array, _encode(array, file.format))
                path.write_bytes(self._written[path][1])

    def _run(self, runnable: ProgramRunnable, environment: Mapping[str, str]) -> float:
        """Run each step's process to its end; return nanoseconds of the host's clock in all.

        Raises:
            LaunchError: it could not be started, or did not end with 0.
        """
        printed, spent_ns = [], 0
        for step in runnable.processes:
            command = self.command(runnable, step)
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                started = time.perf_counter_ns()
                try:
                    status = subprocess.run(
                        command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.folder,
                        env={**environment, **self._marked(), **step.environment}, check=False,
                    ).returncode  # fmt: skip
                except OSError as error:
                    raise LaunchError(f"{runnable.name} cannot be started: {error.strerror or error}") from None
                spent_ns += time.perf_counter_ns() - started
                said = _content(err).strip().splitlines() or _content(out).strip().splitlines()
                if status:
                    ended = f"by signal {-status}" if status < 0 else f"with {status}"
                    last = f": {said[-1]}" if said else ""
                    raise LaunchError(f"{shlex.join([runnable.name, *command[1:]])} ended {ended}{last}")
                printed.append(_content(out))
        runnable.printed = printed
        return float(spent_ns)

    def _marked(self) -> dict[str, str]:
        """Return environment variables that make a process open a profiler's mark, if there is one."""
        if MARK_VARIABLE not in os.environ:
            return {}
        place = self.folder / "mark.so"
        if not place.exists():
            place.write_bytes(self.cache.compile(own_build("mark.c", "gcc"))[0].image)
        return {MARK_VARIABLE: os.environ[MARK_VARIABLE], "LD_PRELOAD": str(place)}

    def _path(self, file: File) -> Path:
        return self.folder / f"{file.buffer}.{ENDINGS[file.format]}"

    def _read_file(self, file: File, array: Array, name: str) -> np.ndarray:
        path = self._path(file)
        try:
            content = path.read_bytes()
        except OSError:
            raise LaunchError(f"{name} left no file of output {file.buffer}") from None
        where = f"{name} wrote to the file of output {file.buffer}"
        if file.format == "text":
            return _read_numbers(content.decode(errors="replace"), array, where)
        if file.format == "npy":
            try:
                found = np.load(io.BytesIO(content), allow_pickle=False)
            except ValueError:
                raise LaunchError(f"{where} something that is not a NumPy file") from None
            if found.dtype != array.type or found.shape != array.shape:
                raise LaunchError(f"{where} {found.dtype} of shape {found.shape}, not {array.dtype} of {array.shape}")
            return np.asarray(found)
        if len(content) != array.nbytes:
            raise LaunchError(f"{where} {len(content)} bytes, not {array.nbytes} ({array.size} × {array.dtype})")
        return np.frombuffer(content, array.type).reshape(array.shape).copy()


def _encode(array: np.ndarray, format: str) -> bytes:
    if format == "npy":
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        return stream.getvalue()
    if format == "text":
        return ("\n".join(map(repr, np.asarray(array).reshape(-1).tolist())) + "\n").encode()
    return np.ascontiguousarray(array).tobytes()


def _read_numbers(text: str, array: Array, where: str) -> np.ndarray:
    """Return the last numbers of a text as an output."""
    numbers = NUMBER.findall(text)
    if len(numbers) < array.size:
        raise LaunchError(f"{where} {len(numbers)} numbers, and {array.size} are expected")
    chosen = numbers[-array.size :]
    whole = array.type.kind in "iu"
    try:
        return np.array([int(each) if whole else float(each) for each in chosen], array.type).reshape(array.shape)
    except (ValueError, OverflowError):
        raise LaunchError(f"{where} {', '.join(chosen[:3])} …, which is not {array.dtype}") from None


def _content(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content
