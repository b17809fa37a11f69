"""The sets of arrays that a stranger's code works on, with contents that only the trusted side knows."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from cuprof.backends.contract import POISON_BYTE, SECOND_POISON_BYTE
from cuprof.backends.registry import get_shared_memory
from cuprof.core.errors import LaunchError
from cuprof.core.processes import count_cores
from cuprof.families import Arrays
from cuprof.judge.border.layout import Layout, cut
from cuprof.judge.border.signals import Task
from cuprof.worker.messages import Job
from cuprof.worker.problem import Problem, Standard, as_long_as

MOST_SETS, MOST_LARGE, LARGE_BYTES = 256, 64, 256 << 20
"""No more sets than the first; than the second if all together would be larger than this: they have to be drawn."""
MEMORY_SHARE = 8
"""All sets together take no more than 1/N of the free memory, unless one alone does."""
LONG_NS = {"cuda": 5e6, "host": 20e6}
"""Executions of one request need take no longer together: the clock is a thousand times as fine."""
MOST_PREPARE_S = 8.0
MOST_DRAWING_S = 0.5
"""Prepare and draw only as many sets as fit into this time, but at least two."""
SPARE = {"cuda": 6, "host": 3}
"""Draw so many more contents than there are sets, for executions by themselves."""
THREADS = min(count_cores(), 8)
"""Draw contents in this many threads, side by side."""
EARLY_ROWS, EARLY_WORDS = 4, 16
"""Read this many random words of this many results before the clock stops."""


@dataclass(eq=False)
class Draw:
    """Contents for sets.

    Args:
        contents: one row for each set.
        standards: number of a row → the right results on it; each is computed at first use.
        apart: for each row the arrays that are not in it as the family gave them.
        names: of all that the family gave.
    """

    contents: Any
    standards: dict[int, Standard] = field(default_factory=dict)
    apart: Sequence[Arrays] = ()
    names: frozenset[str] = frozenset()

    def find_right(self, number: int, problem: Problem, layout: Layout) -> Standard:
        """Return the right results on a row."""
        if number not in self.standards:
            row = fetch(self.contents[number].view(np.uint8))
            held = {name: cut(row, place) for name, place in layout.places.items() if name in self.names}
            self.standards[number] = problem.find_right({**held, **self.apart[number]})
        return self.standards[number]

    def cut(self, first: int, count: int) -> Draw:
        """Return some rows by themselves."""
        some = slice(first, first + count)
        return Draw(self.contents[some], apart=self.apart[some], names=self.names)


class Trips(NamedTuple):
    """How long requests take of themselves.

    Args:
        ones_ns: those for one execution that follow one another: on a device the first also takes its change to the
            process.
        whole_ns: all that follow one another.
    """

    ones_ns: tuple[float, ...] = (0.0, 0.0)
    whole_ns: float = 0.0


@dataclass(eq=False)
class Pool:
    """A problem, and contents for its sets that are drawn for the baseline and one stranger.

    Attributes:
        memory: of all contents that were drawn at once; a stranger may have taken all the rest of a device's since.
        number: of the draw.
        is_met: a stranger's code has had it.
        trips: of requests to the baseline, in its last turn.
    """

    problem: Problem
    draw: Draw | None = None
    memory: Any = None
    number: int = 0
    is_met: bool = False
    trips: Trips = field(default_factory=Trips)

    def take(self, seen: int, count: int, layout: Layout, array_module: Any, *, is_stranger: bool) -> Draw:
        """Return contents that are new to one process, and to all strangers' if it is one.

        Args:
            seen: the number of the last draw that the process had.
        """
        spent = self.number == seen or (is_stranger and self.is_met)
        if self.draw is None or spent or len(self.draw.contents) < count:
            self.draw, self.number, self.is_met = self._draw(count, layout, array_module), self.number + 1, False
        self.is_met |= is_stranger
        return self.draw

    def _draw(self, count: int, layout: Layout, array_module: Any) -> Draw:
        """Draw contents unlike any before, into the memory of earlier ones if there is enough of it."""
        if self.memory is None or len(self.memory) < count:
            self.memory = array_module.empty((count, layout.stride // 8), np.uint64)
        contents = self.memory[:count]
        places, rows, apart = layout.places, contents.view(np.uint8), []
        host = np.empty(layout.stride, np.uint8)
        with ThreadPoolExecutor(THREADS) as threads:
            try:
                drawing = threads.map(lambda _: self.problem.draw(), range(count))
            except RuntimeError as error:  # a stranger has all that a container may have, until its keeper looks
                raise LaunchError(f"no thread can be started: {error}") from None
            for number, drawn in enumerate(drawing):
                row = rows[number] if array_module is np else host
                byte = (POISON_BYTE, SECOND_POISON_BYTE)[number % 2]
                layout.fill(row, as_long_as(self.problem.signature, drawn), byte)
                if row is host:
                    rows[number].set(host)
                own = {name for name in drawn if name in places and drawn[name].shape == places[name].shape}
                apart.append({name: drawn[name] for name in drawn if name not in own})
        return Draw(contents, apart=apart, names=frozenset(drawn))


def fetch(array: Any) -> np.ndarray:
    """Return a copy of an array in the host's memory."""
    return np.array(array) if isinstance(array, np.ndarray) else array.get()


@dataclass
class Sets:
    """The shared memory with its contents.

    Attributes:
        order: which contents each row has.
        room_bytes: what was free of the device's memory before.
    """

    task: Task
    pool: Pool
    memory: Any
    junk: Any
    draw_s: float
    room_bytes: int
    seen: int = 0

    @classmethod
    def open(cls, job: Job, pool: Pool, number: int | None, stack: ExitStack) -> Sets:
        """Allocate shared memory for the sets on a device, closed with the stack; one set has first inputs."""
        signature = pool.problem.signature
        layout, shared = Layout.of(signature), get_shared_memory(job.backend)
        room_bytes = shared.find_room(number)
        most = min(shared.most_bytes, room_bytes // MEMORY_SHARE) // layout.stride
        count = max(1, min(MOST_SETS, max(LARGE_BYTES // layout.stride, MOST_LARGE), most))
        memory = shared(count, layout.stride, number)
        stack.callback(memory.close)
        task = Task(job, number, signature, layout, count)
        took_s = []
        for _ in range(2):  # the first time takes longer
            started = time.monotonic()
            shown = as_long_as(signature, pool.problem.draw())
            took_s.append(time.monotonic() - started)
        sets = cls(task, pool, memory, memory.get_junk(number), min(took_s), room_bytes)
        sets.put(shown, POISON_BYTE)
        return sets

    def __post_init__(self) -> None:
        self.order = np.zeros(self.task.count, int)
        ends = [(each.offset // 8, -(-each.end // 8)) for each in self.task.layout.outputs.values()]
        self._ends = np.array([each for each in ends if each[1] > each[0]] or [(0, 1)]).T  # of no output the first word

    @property
    def kind(self) -> str:
        """Return "cuda", or "host" for memory of the host."""
        return "cuda" if self.task.job.backend == "cuda" else "host"

    def choose_count(self, took_ns: float, prepare_s: float) -> int:
        """Return on how many sets to execute at once."""
        wanted = math.ceil(LONG_NS[self.kind] / took_ns)
        drawn = MOST_DRAWING_S * THREADS / max(self.draw_s, 1e-6)
        bounds = [MOST_PREPARE_S / max(prepare_s, 1e-6), drawn]
        return max(1, min(wanted, self.task.count, *(max(2, int(bound)) for bound in bounds)))

    def repeat(self, count: int) -> None:
        """Have contents in the first rows that the process has met before."""
        problem = self.pool.problem
        self.have(Draw(self._lay_out(problem.sets, POISON_BYTE), dict(enumerate(problem.standards))), count)

    def take(self, count: int) -> Draw:
        """Return contents that are new to the process: for this many sets, and some to spare."""
        layout, is_stranger = self.task.layout, self.task.job.extension is not None
        draw = self.pool.take(
            self.seen, count + SPARE[self.kind], layout, self.memory.array_module, is_stranger=is_stranger
        )
        self.seen = self.pool.number
        return draw

    def have(self, draw: Draw, count: int) -> None:
        """Have these contents in the first rows from now on."""
        self.drawn, self.count = draw, count
        self.sums, self.is_summed = np.zeros(count, np.uint64), np.zeros(count, bool)

    def find_right(self, row: int) -> Standard:
        """Return the right results on the contents of a row."""
        return self.drawn.find_right(int(self.order[row]), self.pool.problem, self.task.layout)

    def find_known(self) -> list[int]:
        """Return the rows whose right results have been computed."""
        return [row for row in range(self.count) if int(self.order[row]) in self.drawn.standards]

    def give(self, count: int) -> None:
        """Give the first rows contents, chosen at random; the others keep theirs."""
        xp = self.memory.array_module
        order = np.random.default_rng(secrets.randbits(64)).permutation(self.count)[:count] % len(self.drawn.contents)
        rows = self.memory.rows.view(np.uint64)[:count]
        if xp is np:
            np.take(self.drawn.contents, order, axis=0, out=rows, mode="clip")
        else:
            rows[...] = self.drawn.contents[xp.asarray(order)]
        self.order[:count] = order

    def put(self, inputs: Arrays, byte: int) -> None:
        """Give the first row these inputs and a fill."""
        self.have(Draw(self._lay_out([inputs], byte)), 1)
        self.give(1)

    def _lay_out(self, sets: Sequence[Arrays], byte: int) -> Any:
        """Return contents with a fill, a row for each of these sets of inputs."""
        rows = np.empty((len(sets), self.task.layout.stride), np.uint8)
        for row, inputs in zip(rows, sets, strict=True):
            self.task.layout.fill(row, inputs, byte)
        return self.memory.array_module.asarray(rows).view(np.uint64)

    def flush(self, how: str) -> int:
        """Fill the caches with other data once all is written; return for how long that took, in nanoseconds.

        On a device something runs there in any case, so that it takes longer while another process works there.
        """
        self.memory.wait()
        started = time.perf_counter_ns()
        if how == "clean":
            self.junk.max()
        elif how == "dirty":
            self.junk.fill(1.0)
        elif self.kind == "cuda":
            self.junk[:1].fill(1.0)
        self.memory.wait()
        return time.perf_counter_ns() - started

    def draw_early(self, count: int) -> None:
        """Choose the words to read once this number of executions has been reported."""
        xp, rng = self.memory.array_module, np.random.default_rng(secrets.randbits(64))
        rows = np.append(rng.integers(0, max(count, 1), EARLY_ROWS - 1), max(count - 1, 0))
        words = rng.integers(*self._ends[:, rng.integers(0, self._ends.shape[1], EARLY_ROWS * EARLY_WORDS)])
        self._places = xp.asarray(np.repeat(rows, EARLY_WORDS)), xp.asarray(words)
        self._words = self.memory.rows.view(np.uint64)

    def look(self) -> None:
        """Read the chosen words."""
        self._early = fetch(self._words[self._places])

    def was_there(self) -> bool:
        """Return whether the chosen words are what they were at the first look."""
        early = self._early
        self.look()
        return bool(np.array_equal(early, self._early))

    def find_odd(self, count: int) -> list[int]:
        """Return the first rows whose results are not those of the same contents before, in a random order."""
        words = self.memory.rows.view(np.uint64)[:count]
        found = fetch(
            sum(
                words[:, place.offset // 8 : -(-place.end // 8)].sum(axis=1, dtype=np.uint64)
                for place in self.task.layout.outputs.values()
            )
        )
        contents = self.order[:count]
        odd = np.flatnonzero(self.is_summed[contents] & (self.sums[contents] != found))
        new = ~self.is_summed[contents]
        self.sums[contents[new]], self.is_summed[contents[new]] = found[new], True
        return [int(row) for row in np.random.default_rng(secrets.randbits(64)).permutation(odd)]

    def fetch(self, row: int) -> dict[str, np.ndarray]:
        """Return copies of a row's outputs."""
        host = fetch(self.memory.rows[row])
        return {name: cut(host, place) for name, place in self.task.layout.outputs.items()}

    def find_damage(self, rows: Sequence[int]) -> str:
        """Return what was done to memory that no execution may change, or an empty string."""
        xp, layout = self.memory.array_module, self.task.layout
        step = 1 if xp is np else max(LARGE_BYTES // layout.stride, 1)  # on a device each look takes its time
        for first in range(0, len(rows), step):
            some = np.asarray(rows[first : first + step])
            held = self.memory.rows[xp.asarray(some)]
            known = self.drawn.contents[xp.asarray(self.order[some])].view(np.uint8)
            for what, part in layout.protected():
                if not bool((held[:, part] == known[:, part]).all()):
                    return what
        return ""
