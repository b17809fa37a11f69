"""Carry out one job: build, check and time the trials of one problem on one back end."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cuprof.backends.base import POISON_BYTE, SECOND_POISON_BYTE, DeviceLostError
from cuprof.backends.device_state import StateMonitor
from cuprof.errors import BuildError, CuprofError, LaunchError, MissingDependencyError
from cuprof.family import Arrays, Family, Program, Signature, Tolerance, Variant
from cuprof.family.trace import describe
from cuprof.measure.energy import EnergyReading, EnergyUnavailableError, measure_energy, measure_idle
from cuprof.measure.method import reading_options, stopping_rule, version
from cuprof.measure.sampling import Sampler
from cuprof.plan.memory import arena_bytes
from cuprof.records import ENERGY_UNAVAILABLE, Check, Measure, Outcome, State, Timing
from cuprof.worker.check import check_tolerance, compare
from cuprof.worker.excerpt import excerpt, one_line
from cuprof.worker.messages import Finished, Job, TrialJob
from cuprof.worker.status_page import NO_TRIAL, Phase

Enter = Callable[[int, Phase], None]
IDLE_NS = 100_000_000
"""A device that has rested for longer than this is brought up to its clocks anew before it is sampled."""


@dataclass(frozen=True)
class Workload:
    """One problem with its inputs and what is right for them."""

    family: Family
    signature: Signature
    inputs: Arrays
    reference: Arrays
    tolerance: Tolerance
    seed: int

    @classmethod
    def make(cls, family: Family, job: Job) -> Workload:
        """Draw inputs from the job's seed and compute the reference.

        Raises:
            ValueError: inputs or reference do not match the family's own signature, or a function of the family
                returns another type than it must.
        """
        signature = family.signature(job.problem)
        _require(signature, Signature, family, "signature", "a Signature")
        inputs = family.generate(job.problem, np.random.default_rng(job.seed))
        _require(inputs, Mapping, family, "generate", "a dict of arrays by input name")
        for name, spec in signature.inputs.items():
            array = inputs.get(name)
            if array is None or _shape(array) != spec.shape or array.dtype != np.dtype(spec.dtype):
                raise ValueError(
                    f"generate() gave input {name} as {_describe(array)}, "
                    f"signature() says {spec.dtype} of shape {spec.shape}"
                )
        inputs = {name: np.asarray(array, order="C") for name, array in inputs.items()}
        with _read_only(inputs):
            reference = family.reference(job.problem, inputs)
        _require(reference, Mapping, family, "reference", "a dict of arrays by output name")
        for name, spec in signature.outputs.items():
            if _shape(reference.get(name)) != spec.shape:
                raise ValueError(
                    f"reference() gave output {name} as {_describe(reference.get(name))}, "
                    f"signature() says shape {spec.shape}"
                )
        with _read_only(inputs):
            tolerance = family.tolerance(job.problem, inputs, reference)
        _require(tolerance, Tolerance, family, "tolerance", "a Tolerance")
        check_tolerance(tolerance, "the family's tolerance()")
        return cls(family, signature, inputs, reference, tolerance, job.seed)


def _require(returned: object, kind: type, family: Family, function: str, wanted: str) -> None:
    """Raise ValueError where a function of the family returned something of another type."""
    if not isinstance(returned, kind):
        found = "None" if returned is None else f"a {type(returned).__name__}"
        raise ValueError(f"family {family.name}: {function}() returned {found}, and must return {wanted}")


@contextmanager
def _read_only(arrays: Arrays) -> Iterator[None]:
    """Keep the arrays from being written to: what a reference changed in place would be what the variants are given."""
    writable = [array for array in arrays.values() if array.flags.writeable]
    try:
        for array in writable:
            array.setflags(write=False)
        yield
    except ValueError as error:
        if "read-only" in str(error):
            raise ValueError("reference() or tolerance() writes into the inputs; let it work on a copy") from error
        raise
    finally:
        for array in writable:
            array.setflags(write=True)


def _shape(array: Any) -> tuple[int, ...] | None:
    return array.shape if isinstance(array, np.ndarray | np.generic) else None


def _describe(array: Any) -> str:
    if array is None:
        return "missing"
    shape = _shape(array)
    return f"a {type(array).__name__}, not an array" if shape is None else f"{array.dtype} of shape {shape}"


@dataclass
class Candidate:
    """A trial under way."""

    index: int
    job: TrialJob
    variant: Variant
    program: Program | None = None
    runnable: Any = None
    check: Check | None = None
    begun: bool = False
    started_at: float = field(default_factory=time.time)
    started_ns: int = field(default_factory=time.monotonic_ns)
    timings: dict[Measure, Timing] = field(default_factory=dict)

    def outcome(self, state: State, message: str = "", log: str = "", phase: str = "") -> Outcome:
        """Return the record of this trial as it stands."""
        return Outcome(
            identity=self.job.identity,
            state=state,
            message=message,
            log=log,
            phase=phase,
            check=self.check,
            build=self.runnable.build if self.runnable is not None else None,
            timings=tuple(self.timings.values()),
            started_at=self.started_at,
            duration_ns=time.monotonic_ns() - self.started_ns,
        )


class TrialRunner:
    """Run the trials of one job, yielding each one's outcome as it is known.

    A trial that fails ends there; the others go on. After an error that loses the device context the generator stops,
    since nothing more can run in this process.

    Args:
        enter: called before every step of a trial with its index and the phase.
        begin: called once for each trial, before its own code is first run.
    """

    def __init__(
        self, backend: Any, workload: Workload, job: Job, enter: Enter, begin: Callable[[], None] = lambda: None
    ) -> None:
        self.backend, self.workload, self.job, self.enter, self.begin = backend, workload, job, enter, begin
        self.rng = np.random.default_rng()
        self.monitor = StateMonitor.find(backend.facts().uuid)
        self._sampled_ns: int | None = None
        self._idle_w: float | None = None

    def run(self) -> Iterator[Finished]:
        """Yield a `Finished` for every trial of the job."""
        family = self.workload.family
        candidates = [
            Candidate(index, trial, family.variant(trial.variant)) for index, trial in enumerate(self.job.trials)
        ]
        ready: list[Candidate] = []
        for candidate in candidates:
            failed = self._attempt(candidate, Phase.BUILD, self._make_program)
            if failed:
                yield failed
            else:
                ready.append(candidate)
        if self.job.build_ahead:
            self.backend.build_ahead((c.variant, c.program, c.job.source_text) for c in ready if c.program)
        options = reading_options(self.job.measure)
        while ready:
            arena = max(arena_bytes(candidate.program) for candidate in ready)
            self.enter(NO_TRIAL, Phase.INPUTS)
            session = None
            try:
                session = self.backend.open(self.workload.signature, self.workload.inputs, options, arena)
                session.watch_inputs()
                self.session = session
                break
            except Exception as error:  # those that want most scratch cannot run; without them the others may
                if session is not None:
                    with suppress(Exception):  # a lost context refuses this too, and its error is the one that counts
                        session.close()
                for candidate in ready:
                    if arena_bytes(candidate.program) == arena:
                        yield self._failure(candidate, Phase.INPUTS, error)
                ready = [candidate for candidate in ready if arena_bytes(candidate.program) < arena]
        else:
            return
        try:
            size = self.job.measure.rotation if self.job.measure.interleave else 1
            for start in range(0, len(ready), size):
                for finished in self._run_rotation(ready[start : start + size]):
                    yield finished
                    if finished.lost:
                        return
                for candidate in ready[start : start + size]:
                    candidate.runnable, candidate.timings = None, {}  # samples, library plans and their workspace
        finally:
            self.session.close()

    def _run_rotation(self, candidates: list[Candidate]) -> Iterator[Finished]:
        self._idle_w = None  # measured anew in every rotation that asks for energy
        right: list[Candidate] = []
        for candidate in candidates:
            if not candidate.begun:
                candidate.begun = True
                self.begin()
            failed = self._attempt(candidate, Phase.BUILD, self._prepare) or self._attempt(
                candidate, Phase.CHECK, self._check
            )
            if failed:
                yield failed
                if failed.lost:
                    return
                if self._find_damage():  # done before it raised, and not to be laid at the next one's door
                    self._restore_inputs()
            elif candidate.check and not candidate.check.passed:
                yield Finished(
                    candidate.index, candidate.outcome(State.WRONG_RESULT, candidate.check.message, phase="check")
                )
            else:
                right.append(candidate)
        yield from self._time(right)

    def _time(self, candidates: list[Candidate]) -> Iterator[Finished]:
        wanted = [measure for measure in self.job.methods if measure in self.backend.measures]
        going = {candidate.index: candidate for candidate in candidates}
        if not wanted:
            for candidate in candidates:
                yield self._recheck(candidate)
        for position, measure in enumerate(wanted):
            current: list[int] = [-1]
            while going:
                pairs = [(c.index, c.runnable) for c in going.values() if measure not in c.timings]
                if not pairs:
                    break
                try:
                    for index, timing in self._sampler(measure, current).sample(pairs, measure):
                        self._sampled_ns = time.monotonic_ns()
                        current[0] = index
                        timing = replace(timing, details={**self._method_details(measure), **timing.details})
                        going[index].timings[measure] = self._with_energy(going[index], timing, position)
                        if position == len(wanted) - 1:
                            damage = self._find_damage()
                            if damage:
                                yield from self._find_culprit(list(going.values()), damage)
                                return
                            finished = self._recheck(going.pop(index))
                            yield finished
                            if finished.lost:
                                return
                except Exception as error:  # whatever a variant raises costs its own trial alone
                    finished = self._failure(going.pop(current[0]), Phase.TIME, error)
                    yield finished
                    if finished.lost:
                        return
                    if self._find_damage():
                        self._restore_inputs()
                        yield from self._sample_apart(list(going.values()))
                        return

    def _find_culprit(self, candidates: list[Candidate], damage: str) -> Iterator[Finished]:
        """Say which of the candidates did the damage while all were sampled; sample the others again."""
        self._restore_inputs()
        if len(candidates) == 1:
            (culprit,) = candidates
            assert culprit.check is not None
            culprit.timings = {}
            message = f"{damage} while it is timed"
            culprit.check = replace(culprit.check, passed=False, error=float("inf"), message=message)
            yield Finished(culprit.index, culprit.outcome(State.WRONG_RESULT, message, phase="time"))
            return
        yield from self._sample_apart(candidates)

    def _sample_apart(self, candidates: list[Candidate]) -> Iterator[Finished]:
        """Begin anew with each by itself: the samples of all were taken on inputs that were not theirs any more."""
        for candidate in candidates:
            candidate.timings, candidate.check = {}, None
            for finished in self._run_rotation([candidate]):
                yield finished
                if finished.lost:
                    return

    def _method_details(self, measure: Measure) -> dict[str, Any]:
        """Return what is stored with every timing: the method's version, and what was taken off each duration."""
        return {"version": version(self.backend.name), "correction_ns": self.backend.correction_ns(measure)}

    def _with_energy(self, candidate: Candidate, timing: Timing, position: int) -> Timing:
        """Add the energy of an execution to the first measure's timing where it is asked for, or why there is none."""
        if position or not self.job.measure.energy or self.backend.name == "cpu":
            return timing
        try:
            reading = self._measure_energy(candidate, timing.summary.median_ns)
        except EnergyUnavailableError as error:
            return replace(timing, details={**timing.details, ENERGY_UNAVAILABLE: str(error)})
        return replace(timing, energy=reading.energy, details={**timing.details, **reading.as_details()})

    def _measure_energy(self, candidate: Candidate, median_ns: float) -> EnergyReading:
        monitor, session, runnable = self.monitor, self.session, candidate.runnable
        if monitor is None:
            raise EnergyUnavailableError("NVML does not know the device")
        if monitor.energy_mj() is None:
            raise EnergyUnavailableError("NVML has no energy counter for the device")
        batch = max(1, min(1000, int(5e6 / max(median_ns, 1e3))))

        def execute() -> int:
            self.enter(candidate.index, Phase.TIME)  # the loop may last longer than the limit of one execution
            session.repeat(runnable, batch)
            return batch

        self.enter(candidate.index, Phase.TIME)
        if self._idle_w is None:
            self._idle_w = measure_idle(monitor.energy_mj)
        return measure_energy(execute, monitor.energy_mj, self._idle_w, self.job.measure.energy_seconds)

    def _sampler(self, measure: Measure, current: list[int]) -> Sampler:
        config = self.job.measure
        rested = self._sampled_ns is None or time.monotonic_ns() - self._sampled_ns > IDLE_NS

        def attend(index: int) -> None:
            current[0] = index
            self.enter(index, Phase.TIME)

        return Sampler(
            session=self.session,
            rule=stopping_rule(config),
            method=self.job.methods[measure],
            rng=self.rng,
            attend=attend,
            warmup=config.warmup,
            settle_ns=config.settle_seconds * 1e9 if rested else 0.0,
            clock_tolerance=config.clock_tolerance,
            monitor=self.monitor,
        )

    def _make_program(self, candidate: Candidate) -> None:
        if candidate.variant.kind == "kernel":
            candidate.program = candidate.variant.make(self.job.problem, candidate.job.tunables)

    def _prepare(self, candidate: Candidate) -> None:
        candidate.runnable = self.session.prepare(
            candidate.variant, self.job.problem, candidate.job.tunables, candidate.program, candidate.job.source_text
        )

    def _check(self, candidate: Candidate) -> None:
        self.session.poison(candidate.runnable, SECOND_POISON_BYTE if candidate.check else POISON_BYTE)
        self.session.run(candidate.runnable)
        tolerance = self.workload.tolerance
        own = candidate.variant.tolerance
        if own is not None:
            with _read_only(self.workload.inputs):
                tolerance = own(self.job.problem, self.workload.inputs, self.workload.reference)
            check_tolerance(tolerance, f"the tolerance of {candidate.variant.name}")
        reference, seed = self.workload.reference, self.workload.seed
        candidate.check = self.session.check_in_place(candidate.runnable, reference, tolerance, seed) or compare(
            self.session.fetch(candidate.runnable), reference, tolerance, seed
        )
        damage = self._find_damage()
        if damage:
            self._restore_inputs()
            wrong = "" if candidate.check.passed else f"{candidate.check.message}; "
            message = f"{wrong}{damage}; the variants after it were given the inputs anew"
            candidate.check = replace(candidate.check, passed=False, error=float("inf"), message=message)

    def _find_damage(self) -> str:
        """Return what was done to memory that is not a variant's to write, as the end of a sentence, or nothing."""
        overwritten = self.session.damaged_inputs()
        overrun = self.session.overrun_arrays()
        done = [f"overwrites its input {', '.join(overwritten)}"] if overwritten else []
        done += [f"writes outside its {', '.join(overrun)}"] if overrun else []
        return f"it {' and '.join(done)}" if done else ""

    def _restore_inputs(self) -> None:
        """Give the session the inputs that the job's seed makes, since a variant has overwritten them."""
        fresh = self.workload.family.generate(self.job.problem, np.random.default_rng(self.job.seed))
        self.session.restore_inputs(fresh)

    def _recheck(self, candidate: Candidate) -> Finished:
        """Check once more, after timing where there is any: a variant that is right only the first time is wrong."""
        failed = self._attempt(candidate, Phase.CHECK, self._check)
        if failed:
            return failed
        if candidate.check is not None and not candidate.check.passed:
            when = "before timing, wrong after it" if candidate.timings else "at first, wrong the second time"
            message = f"right {when}: {candidate.check.message}"
            return Finished(candidate.index, candidate.outcome(State.WRONG_RESULT, message, phase="recheck"))
        return Finished(candidate.index, candidate.outcome(State.OK))

    def _attempt(self, candidate: Candidate, phase: Phase, action: Callable[[Candidate], None]) -> Finished | None:
        """Carry out one step; return how it failed, or None."""
        self.enter(candidate.index, phase)
        try:
            action(candidate)
        except Exception as error:  # whatever a variant raises costs its own trial alone
            return self._failure(candidate, phase, error)
        return None

    @staticmethod
    def _failure(candidate: Candidate, phase: Phase, error: Exception) -> Finished:
        name = phase.name.lower()
        message = one_line(str(error)) if isinstance(error, CuprofError | ImportError) else describe(error)
        if isinstance(error, BuildError):
            log = excerpt(error.log)
            return Finished(candidate.index, candidate.outcome(State.COMPILE_ERROR, message, log, name))
        if isinstance(error, MissingDependencyError | ImportError):
            return Finished(candidate.index, candidate.outcome(State.SKIPPED, message, phase=name))
        if isinstance(error, LaunchError):
            candidate = replace(candidate, timings={})
            lost = isinstance(error, DeviceLostError)
            return Finished(candidate.index, candidate.outcome(State.LAUNCH_ERROR, message, phase=name), lost)
        log = excerpt("".join(traceback.format_exception(error)))
        return Finished(candidate.index, candidate.outcome(State.LAUNCH_ERROR, describe(error), log, name))
