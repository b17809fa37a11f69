"""Jobs carried out in this process on the CPU back end: what becomes of each trial."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuprof.backends.contract import DeviceLostError
from cuprof.backends.cpu.backend import CpuBackend
from cuprof.backends.registry import CPU
from cuprof.config.model import MeasureConfig
from cuprof.core.errors import BuildError, DeviceMemoryError
from cuprof.core.records import ENERGY_UNAVAILABLE, DeviceFacts, Measure, Outcome, State
from cuprof.families import Array, Family, Launch, Point, Program, Signature, Tolerance, Variant
from cuprof.families.origin import Folder, load_family
from cuprof.worker.job import Held, JobRun, make_program
from cuprof.worker.messages import Finished, Job, JobTrial
from cuprof.worker.problem import Problem
from cuprof.worker.rotation import Rotations
from cuprof.worker.status_page import NO_TRIAL, Phase
from cuprof.worker.trial import Trial
from tests.worker.pages import Page

FAULTY = Path(__file__).parents[1] / "data" / "families" / "faulty"
QUICK = MeasureConfig(
    modes=("cold",), target=0.5, min_samples=3, max_samples=6, warmup=1, settle_seconds=0.0, flush="none"
)
COLD = {Measure.COLD: "c" * 16}
BOTH = {Measure.COLD: "c" * 16, Measure.HOT: "h" * 16}


@pytest.fixture
def family() -> Family:
    return load_family(FAULTY)


def make_job(*variants: str, methods: Mapping[Measure, str] = COLD, **changes: Any) -> Job:
    trials = tuple(JobTrial(f"{number:032x}", name, Point(), "") for number, name in enumerate(variants))
    job = Job(Folder(FAULTY), "cpu", Point(n=16), trials, seed=3, measure=QUICK, methods=methods)
    return replace(job, **changes)


class Watched:
    """A runner on the CPU, with what it entered."""

    def __init__(self, family: Family, job: Job, backend: Any = None) -> None:
        page = Page()
        self.entered = page.entered
        self.runner = JobRun(backend or CpuBackend(1), Problem.make(family, job), job, page, Held())  # type: ignore[arg-type]

    def run(self) -> dict[str, Outcome]:
        done = list(self.runner.run())
        indices = [finished.index for finished in done]
        assert sorted(indices) == list(range(len(self.runner.job.trials))), "each trial is answered once"
        assert not any(finished.lost for finished in done)
        names = [trial.variant for trial in self.runner.job.trials]
        return {names[finished.index]: finished.outcome for finished in done}


def run(family: Family, *variants: str, **changes: Any) -> dict[str, Outcome]:
    return Watched(family, make_job(*variants, **changes)).run()


def test_right_trials_are_checked_and_timed_by_each_measure(family: Family) -> None:
    found = run(family, "sound_first", "sound_last", methods=BOTH)
    for outcome in found.values():
        assert (outcome.state, outcome.message) == (State.OK, "")
        assert [timing.measure for timing in outcome.timings] == [Measure.COLD, Measure.HOT]
        assert [timing.method for timing in outcome.timings] == ["c" * 16, "h" * 16]
        assert all(timing.summary.median_ns > 0 for timing in outcome.timings)
        assert outcome.check is not None
        assert (outcome.check.passed, outcome.check.seed) == (True, 3)
        assert outcome.build is not None
        assert outcome.duration_ns > 0
        assert outcome.started_at > 1e9


def test_who_returns_because_the_result_is_there_has_no_hot_time(family: Family) -> None:
    def make(problem, tune, inputs, outputs):  # type: ignore[no-untyped-def]
        x, y = inputs["x"], outputs["y"]
        return lambda: None if y[0] == 2 * x[0] and y[-1] == 2 * x[-1] else np.multiply(x, 2, out=y)

    family.cpu("ends_there")(make)
    for methods, state in ((COLD, State.OK), (BOTH, State.WRONG_RESULT)):
        for flush in ("none", "clean"):
            measure = replace(QUICK, flush=flush)
            job = make_job("ends_there", methods=methods, measure=measure, problem=Point(n=4096))
            found = Watched(family, job).run()["ends_there"]
            assert found.state is state, (found.message, flush)
    assert found.message.startswith("it skips the work when its result is already there, as in back-to-back runs: y[")


def test_without_measures_trials_are_only_checked(family: Family) -> None:
    found = run(family, "sound_first", "wrong", methods={})
    assert (found["sound_first"].state, found["sound_first"].timings) == (State.OK, ())
    assert found["wrong"].state is State.WRONG_RESULT


@pytest.mark.parametrize(
    ("variant", "state", "phase", "message"),
    [
        ("wrong", State.WRONG_RESULT, "check", "16 of 16 elements are wrong"),
        ("unwritten", State.WRONG_RESULT, "check", "y[8] = nan"),
        ("overwrites_while_timed", State.WRONG_RESULT, "time", "it overwrites its input x while it is timed"),
        ("writes_outside", State.WRONG_RESULT, "check", "it writes outside its output y; the variants after it"),
        ("meddles", State.LAUNCH_ERROR, "check", r"ValueError: \x1b[31mI am \x07 red"),
        ("right_at_first", State.WRONG_RESULT, "recheck", "right before timing, wrong after it: y["),
        ("raises", State.LAUNCH_ERROR, "check", "ValueError: n is not to my liking"),
        ("raises_in_make", State.LAUNCH_ERROR, "build", "KeyError"),
        ("raises_while_timed", State.LAUNCH_ERROR, "time", "RuntimeError: tired"),
        ("allocates", State.LAUNCH_ERROR, "check", "MemoryError: Unable to allocate"),
        ("imports", State.SKIPPED, "build", "No module named 'module_that_does_not_exist'"),
        ("rebinds", State.LAUNCH_ERROR, "check", "TypeError"),
    ],
)
@pytest.mark.parametrize("interleave", [True, False])
def test_a_faulty_trial_ends_and_its_neighbours_do_not(
    family: Family, variant: str, state: State, phase: str, message: str, interleave: bool
) -> None:
    found = run(family, "sound_first", variant, "sound_last", measure=replace(QUICK, interleave=interleave))
    assert (found[variant].state, found[variant].phase) == (state, phase)
    assert message in found[variant].message
    assert "\n" not in found[variant].message
    for name in ("sound_first", "sound_last"):
        assert found[name].state is State.OK
        assert len(found[name].timings) == 1


def test_phases_are_entered_before_they_begin(family: Family) -> None:
    watched = Watched(family, make_job("sound_first", "wrong"))
    watched.run()
    assert watched.entered[:4] == [(0, Phase.BUILD), (1, Phase.BUILD), (NO_TRIAL, Phase.INPUTS), (0, Phase.BUILD)]
    assert (0, Phase.TIME) in watched.entered
    assert (1, Phase.TIME) not in watched.entered
    assert watched.entered[-1] == (0, Phase.CHECK)


def test_a_variant_that_ends_the_process_is_the_last_that_was_entered(family: Family) -> None:
    watched = Watched(family, make_job("sound_first", "exits"))
    with pytest.raises(SystemExit):
        watched.run()
    assert watched.entered[-1] == (1, Phase.CHECK)


def test_rotations_share_the_device_a_few_at_a_time(family: Family) -> None:
    watched = Watched(family, make_job(*["sound_first"] * 5, measure=replace(QUICK, rotation=2)))
    done = [finished.index for finished in watched.runner.run()]
    assert [set(done[:2]), set(done[2:4]), set(done[4:])] == [{0, 1}, {2, 3}, {4}]


def test_samples_taken_on_destroyed_inputs_are_taken_again(family: Family) -> None:
    names = ("sound_first", "overwrites_while_timed", "sound_last", "prints")
    for _ in range(5):  # whichever ends first
        found = run(family, *names)
        assert [found[name].state is State.OK for name in names] == [True, False, True, True]
        assert found["overwrites_while_timed"].timings == ()
        rotations = {found[name].timings[0].rotation for name in names if name != "overwrites_while_timed"}
        assert len(rotations) == 3  # each was sampled again by itself


def by_numba(problem: Point, tune: Point, inputs: Any, outputs: Any) -> Any:
    """Double, in a loop that goes sixteen elements too far."""
    import numba

    @numba.njit
    def double(x: Any, y: Any) -> None:
        for i in range(x.size + 16):
            y[i] = 2 * x[i % x.size]

    return lambda: double(inputs["x"], outputs["y"])


def by_numpy(problem: Point, tune: Point, inputs: Any, outputs: Any) -> Any:
    """Double, through a view that begins sixteen elements too early."""
    x, y = inputs["x"], outputs["y"]
    wide = np.ctypeslib.as_array((ctypes.c_float * (x.size + 16)).from_address(y.ctypes.data - 64))

    def run() -> None:
        wide[:16] = 0
        np.multiply(x, 2, out=wide[16:])

    return run


@pytest.mark.parametrize(("make", "requires"), [(by_numba, ("numba",)), (by_numpy, ())])
@pytest.mark.parametrize("interleave", [True, False])
def test_a_variant_that_writes_outside_its_output_is_wrong_and_costs_itself_alone(
    family: Family, make: Any, requires: tuple[str, ...], interleave: bool
) -> None:
    family.variants["outside"] = replace(family.variant("sound_first"), make=make, requires=requires)
    names = ("sound_first", "outside", "sound_last")
    found = run(family, *names, measure=replace(QUICK, interleave=interleave))
    assert [found[name].state for name in names] == [State.OK, State.WRONG_RESULT, State.OK]
    assert found["outside"].phase == "check"
    assert found["outside"].message.startswith("it writes outside its output y;")
    assert found["outside"].check is not None
    assert not found["outside"].check.passed


def late(nth: int, action: Any) -> Any:
    """Return a variant that doubles, and at its nth call does something else as well."""

    def make(problem: Point, tune: Point, inputs: Any, outputs: Any) -> Any:
        calls: list[None] = []

        def run() -> None:
            calls.append(None)
            np.multiply(inputs["x"], 2, out=outputs["y"])
            if len(calls) == nth:
                action(inputs, outputs)

        return run

    return make


def write_outside(inputs: Any, outputs: Any) -> None:
    ctypes.memset(inputs["x"].ctypes.data - 4, 0, 4)
    ctypes.memset(outputs["y"].ctypes.data + outputs["y"].nbytes, 0, 4)


def overwrite_and_raise(inputs: Any, outputs: Any) -> None:
    inputs["x"][:] = 0
    write_outside(inputs, outputs)
    raise RuntimeError("too late")


def test_what_is_written_outside_while_several_are_timed_is_traced_to_its_author(family: Family) -> None:
    family.variants["late"] = replace(family.variant("sound_first"), make=late(3, write_outside))
    names = ("sound_first", "late", "sound_last")
    found = run(family, *names)
    assert [found[name].state for name in names] == [State.OK, State.WRONG_RESULT, State.OK]
    assert found["late"].message == "it writes outside its input x, output y while it is timed"
    assert found["late"].timings == ()


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("interleave", [True, False])
@pytest.mark.parametrize("names", [("late", "sound_first"), ("sound_first", "late", "sound_last")])
def test_what_a_variant_damaged_before_it_raised_is_not_laid_at_anothers_door(
    family: Family, nth: int, interleave: bool, names: tuple[str, ...]
) -> None:
    family.variants["late"] = replace(family.variant("sound_first"), make=late(nth, overwrite_and_raise))
    found = run(family, *names, measure=replace(QUICK, interleave=interleave))
    for name in names:
        assert found[name].state is (State.LAUNCH_ERROR if name == "late" else State.OK), found[name].message


def test_an_integer_that_nobody_wrote_is_wrong_even_where_the_poison_is_right(family: Family) -> None:
    family.signature = lambda problem: Signature({"x": Array((16,), "float32")}, {"y": Array((16,), "int32")})
    family.reference = lambda problem, inputs: {"y": np.full(16, -1)}
    family.variants["lazy"] = replace(family.variant("sound_first"), make=lambda *_: lambda: None)
    writes = replace(family.variant("sound_first"), make=lambda p, t, inputs, outputs: lambda: outputs["y"].fill(-1))
    family.variants["writes"] = writes
    for methods in (COLD, {}):
        found = run(family, "lazy", "writes", methods=methods)
        assert (found["lazy"].state, found["lazy"].phase) == (State.WRONG_RESULT, "recheck")
        assert found["writes"].state is State.OK


@pytest.mark.parametrize("part", ["reference", "tolerance"])
def test_a_reference_that_works_in_place_is_refused(family: Family, part: str) -> None:
    kept = getattr(family, part)

    def in_place(problem: Point, inputs: Any, *expected: Any) -> Any:
        inputs["x"] -= 1
        return kept(problem, inputs, *expected)

    setattr(family, part, in_place)
    with pytest.raises(ValueError, match="writes into the inputs; let it work on a copy"):
        Problem.make(family, make_job())
    setattr(family, part, kept)
    assert Problem.make(family, make_job()).sets[0]["x"].flags.writeable


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (None, r"family faulty: tolerance\(\) returned None, and must return a Tolerance"),
        (Tolerance(absolute=-1.0), "negative or undefined absolute bound"),
        (Tolerance(relative=float("nan")), "negative or undefined relative bound"),
        (Tolerance(absolute=np.array([0.0, np.nan])), "negative or undefined absolute bound"),
    ],
)
def test_a_tolerance_that_nothing_could_be_held_to_is_the_familys_fault(
    family: Family, given: Any, complaint: str
) -> None:
    family.tolerance = lambda problem, inputs, reference: given
    with pytest.raises(ValueError, match=complaint):
        Problem.make(family, make_job())


def test_a_variant_may_have_a_tolerance_of_its_own(family: Family) -> None:
    lenient = replace(family.variant("wrong"), tolerance=lambda problem, inputs, reference: Tolerance(absolute=2.0))
    family.variants["wrong"] = lenient
    assert run(family, "wrong")["wrong"].state is State.OK


class Refusing:
    """A back end of kernels, and its session, that refuses as it is told to; sound ones write what is right."""

    spec, busy_until_ns, stocked = CPU, 0, 0

    def __init__(self, most_bytes: int = 1 << 40, lose: str = "", most_stocked: int = 1 << 40) -> None:
        self.most_bytes, self.lose, self.most_stocked = most_bytes, lose, most_stocked
        self.opened: list[int] = []
        self.closed = 0
        self.begun: list[str] = []
        self.compiling: dict[str, list[Future[Any]]] = {}
        self.driven_by, self.backend = "cpu", self

    def facts(self) -> DeviceFacts:
        return DeviceFacts(self.driven_by, 0, "a back end that refuses", uuid="")

    def open(self, signature: Signature, inputs: Any, options: Any, scratch_bytes: int = 0) -> Refusing:
        self.opened.append(scratch_bytes)
        if scratch_bytes > self.most_bytes:
            raise DeviceMemoryError("open", "no more")
        self.inputs = inputs
        return self

    def prepare(self, variant: Variant, problem: Point, tunables: Point, program: Program, text: str) -> Any:
        if variant.name == "no_compile":
            raise BuildError("refused", "line 1: error\nline 2")
        return type("Runnable", (), {"build": None, "name": variant.name})

    def put_back(self, *, settings: bool = True) -> bool:
        return False

    def poison(self, runnable: Any, byte: int = 0) -> None:
        return None

    def run(self, runnable: Any) -> None:
        if runnable.name == self.lose:
            raise DeviceLostError("illegal address")

    def fetch(self, runnable: Any) -> dict[str, np.ndarray]:
        return {"y": 2 * self.inputs["x"]}

    def stock(self, *_: Any) -> None:
        if self.opened[-1] > self.most_stocked:
            raise DeviceMemoryError("open", "no more")

    def expect(self, runnable: Any, tolerances: Any) -> None:
        return None

    def build_ahead(self, signature: Any, builds: Any) -> list[list[Future[Any]]]:
        names = [variant.name for variant, _, _ in builds]
        self.begun += names
        return [self.compiling.get(name, []) for name in names]

    def check_in_place(self, *_: Any) -> None:
        return None

    def checksum(self, runnable: Any) -> None:
        return None

    def overrun_arrays(self) -> tuple[str, ...]:
        return ()

    def damaged_inputs(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def kernels(family: Family) -> Family:
    def program(scratch: int) -> Any:
        made = Program((Launch("k", (1,), (1,), ()),), scratch={"s": Array((scratch,), "uint8")} if scratch else {})
        return lambda problem, tune: made

    for name, scratch in {"small": 0, "medium": 1000, "large": 10**6, "huge": 10**9, "no_compile": 0}.items():
        family.variants[name] = Variant(name, "cuda", "kernel", program(scratch), "", "faults.cu")
    return family


def test_where_the_host_is_timed_a_rotation_is_built_before_it_begins_and_nothing_while_it_is_timed(
    kernels: Family,
) -> None:
    backend = Refusing()
    entered: list[list[str]] = []
    run, measure = Rotations.run, replace(QUICK, interleave=True, rotation=2)

    def watch(rotations: Rotations, trials: Sequence[Trial]) -> Any:
        entered.append(list(backend.begun))
        return run(rotations, trials)

    job = make_job("small", "medium", "large", methods={}, measure=measure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rotations, "run", watch)
        Watched(kernels, job, backend).run()
    assert entered == [["small", "medium"], ["small", "medium", "large"]]


def test_what_is_built_is_timed_while_the_rest_is_compiled(kernels: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, compiled = Refusing(), Future[Any]()
    backend.driven_by, backend.compiling = "cuda", {"small": [compiled]}
    timed: list[list[str]] = []
    run = Rotations.run

    def watch(rotations: Rotations, trials: Sequence[Trial]) -> Any:
        timed.append([trial.variant.name for trial in trials])
        yield from run(rotations, trials)
        if not compiled.done():
            compiled.set_result(None)

    monkeypatch.setattr(Rotations, "run", watch)
    job = make_job("small", "medium", "large", methods={}, measure=replace(QUICK, interleave=True, rotation=2))
    found = Watched(kernels, job, backend).run()
    assert timed == [["medium", "large"], ["small"]]
    assert {outcome.state for outcome in found.values()} == {State.OK}


def test_files_that_are_opened_once_when_a_program_is_made_ahead_are_told_with_its_trial(
    kernels: Family, tmp_path: Path
) -> None:
    table = tmp_path / "table.txt"
    table.write_text("1")
    program = kernels.variants["small"].make
    read = cache(table.read_text)
    kernels.variants["reads"] = replace(
        kernels.variants["small"], name="reads", make=lambda problem, tune: read() and program(problem, tune)
    )
    first = Watched(kernels, make_job("small", methods={}), Refusing())
    trials = make_job("small", "reads").trials[1:]
    made = make_program(kernels.variant("reads"), first.runner.job.problem, trials[0])
    first.runner.held.programs[trials[0].identity] = made
    job = replace(first.runner.job, trials=trials)
    second = JobRun(Refusing(), first.runner.problem, job, Page(), first.runner.held)  # type: ignore[arg-type]
    (finished,) = second.run()
    assert finished.outcome.opened == (str(table),)


def test_a_kernel_that_does_not_compile_has_the_compilers_log(kernels: Family) -> None:
    job = make_job("small", "no_compile", methods={})
    found = Watched(kernels, job, Refusing()).run()
    assert found["small"].state is State.OK
    outcome = found["no_compile"]
    assert (outcome.state, outcome.message, outcome.log) == (State.COMPILE_ERROR, "refused", "line 1: error\nline 2")


def test_scratch_that_does_not_fit_costs_those_that_want_it_alone(kernels: Family) -> None:
    backend = Refusing(most_bytes=2000)
    found = Watched(kernels, make_job("small", "huge", "medium", "large", methods={}), backend).run()
    assert {name: outcome.state for name, outcome in found.items()} == {
        "small": State.OK, "medium": State.OK, "large": State.LAUNCH_ERROR, "huge": State.LAUNCH_ERROR,
    }  # fmt: skip
    assert found["huge"].message == "open: out of device memory: no more"
    assert sorted(backend.opened, reverse=True) == backend.opened
    assert (len(backend.opened), backend.closed) == (3, 1)


def test_a_session_that_could_not_be_stocked_gives_its_memory_back(kernels: Family) -> None:
    backend = Refusing(most_stocked=2000)
    found = Watched(kernels, make_job("small", "large", methods={}), backend).run()
    assert (found["small"].state, found["large"].state) == (State.OK, State.LAUNCH_ERROR)
    assert (len(backend.opened), backend.closed) == (2, 2)


def test_buffers_that_do_not_fit_cost_every_trial_and_end(kernels: Family) -> None:
    found = Watched(kernels, make_job("small", "medium", methods={}), Refusing(most_bytes=-1)).run()
    assert {outcome.state for outcome in found.values()} == {State.LAUNCH_ERROR}


def test_a_lost_device_ends_the_job_and_leaves_the_rest_unanswered(kernels: Family) -> None:
    backend = Refusing(lose="medium")
    watched = Watched(kernels, make_job("small", "medium", "large", methods={}), backend)
    done: list[Finished] = list(watched.runner.run())
    assert [(finished.index, finished.lost) for finished in done] == [(1, True)]
    assert done[0].outcome.state is State.LAUNCH_ERROR
    assert backend.closed == 1


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "generate() gave input x as missing, signature() says float32 of shape (16,)"),
        ({"x": np.zeros(15, "f4")}, "as float32 of shape (15,), signature() says float32 of shape (16,)"),
        ({"x": np.zeros(16)}, "as float64 of shape (16,), signature() says float32"),
        ({"x": [0.0] * 16}, "as a list, not an array"),
    ],
)
def test_inputs_that_do_not_match_the_signature_are_refused(family: Family, given: Any, complaint: str) -> None:
    family.generate = lambda problem, rng: given
    with pytest.raises(ValueError, match=r"generate\(\)|reference\(\)") as raised:
        Problem.make(family, make_job())
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "reference() gave output y as missing"),
        ({"y": np.zeros((16, 1))}, "as float64 of shape (16, 1), signature() says shape (16,)"),
        ({"y": 0.0}, "as a float, not an array"),
    ],
)
def test_a_reference_that_does_not_cover_the_outputs_is_refused(family: Family, given: Any, complaint: str) -> None:
    family.reference = lambda problem, inputs: given
    with pytest.raises(ValueError, match=r"generate\(\)|reference\(\)") as raised:
        Problem.make(family, make_job())
    assert complaint in str(raised.value)


@pytest.mark.parametrize("given", [None, 5])
@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("signature", "a Signature"),
        ("generate", "a dict of arrays by input name"),
        ("reference", "a dict of arrays by output name"),
        ("tolerance", "a Tolerance"),
    ],
)
def test_a_function_of_the_family_that_returns_something_else_is_named(
    family: Family, part: str, wanted: str, given: Any
) -> None:
    setattr(family, part, lambda *_: given)
    found = "None" if given is None else "a int"
    with pytest.raises(ValueError, match=rf"family faulty: {part}\(\) returned {found}, and must return {wanted}"):
        Problem.make(family, make_job())


def test_what_a_compiler_says_at_length_is_cut(kernels: Family) -> None:
    class Verbose(Refusing):
        def prepare(self, *_: Any) -> Any:
            raise BuildError("refused\n" + 10**6 * "m", "begin" + 10**6 * "l" + "end")

    outcome = Watched(kernels, make_job("small", methods={}), Verbose()).run()["small"]
    assert outcome.state is State.COMPILE_ERROR
    assert len(outcome.message) < 3000
    assert len(outcome.log) < 10_000
    assert re.fullmatch(r"beginl* … \[\d+ characters left out\] … l*end", outcome.log)
    assert "\n" not in outcome.message


def test_a_familys_constants_are_the_same_in_every_set_and_must_be_inputs(family: Family) -> None:
    family.signature = lambda problem: Signature(
        {"x": Array((4,), "float32"), "w": Array((2,), "float32")}, {"y": Array((4,), "float32")}
    )
    family.generate = lambda problem, rng: {"x": rng.random(4, np.float32), "w": rng.random(2, np.float32)}
    family.reference = lambda problem, inputs: {"y": inputs["x"] * float(inputs["w"][0])}
    family.constants = ("w",)
    problem = Problem.make(family, make_job())
    every = [*problem.sets, problem.draw(), problem.draw()]
    assert all(np.array_equal(each["w"], problem.sets[0]["w"]) for each in every)
    assert len({each["x"].tobytes() for each in every}) == len(every)
    family.constants = ("weights",)
    with pytest.raises(ValueError, match=r"constants names weights, signature\(\) has no input of that name"):
        Problem.make(family, make_job())


@pytest.mark.parametrize(("free_bytes", "sets"), [(0, 1), (16 * 64, 2), (1 << 40, 2)])
def test_as_many_sets_are_drawn_as_memory_holds(
    family: Family, monkeypatch: pytest.MonkeyPatch, free_bytes: int, sets: int
) -> None:
    monkeypatch.setattr("cuprof.worker.problem.available_bytes", lambda: free_bytes)
    problem = Problem.make(family, make_job())
    assert (len(problem.sets), len(problem.standards)) == (sets, sets)


def test_inputs_follow_the_seed_and_lie_in_c_order(family: Family) -> None:
    one, same = Problem.make(family, make_job()), Problem.make(family, make_job())
    other = Problem.make(family, make_job(seed=4))
    assert np.array_equal(one.sets[0]["x"], same.sets[0]["x"])
    assert not np.array_equal(one.sets[0]["x"], other.sets[0]["x"])
    family.signature = lambda problem: Signature({"x": Array((4, 3), "float32")}, {"y": Array((4, 3), "float32")})
    family.generate = lambda problem, rng: {"x": np.asfortranarray(rng.random((4, 3), dtype=np.float32))}
    assert Problem.make(family, make_job()).sets[0]["x"].flags.c_contiguous


class Board:
    """A device that NVML knows: its counter steps every 20 ms, unless it has none or stands still.

    Its clock goes on by half a millisecond whenever it is read, so that no step is seen late.
    """

    throttled, state, sm_clock_mhz = "", {"temperature_c": None}, None

    def __init__(self, step_mj: int | None = 100) -> None:
        self.step_mj, self.now_ns = step_mj, 0

    def perf_counter(self) -> float:
        self.sleep(5e-4)
        return self.now_ns * 1e-9

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def refresh(self) -> None:
        return None

    def energy_mj(self) -> int | None:
        return None if self.step_mj is None else self.step_mj * (self.now_ns // 20_000_000)


class Powered(CpuBackend):
    """A processor of which energy is asked."""

    spec = replace(CPU, unheeded=frozenset())


def run_with_energy(family: Family, board: Board | None, **changes: Any) -> tuple[Outcome, Watched]:
    measure = replace(QUICK, target=0.001, energy=True, energy_seconds=0.2)  # for all of the time
    watched = Watched(family, make_job("sound_first", measure=measure, **changes), Powered(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cuprof.worker.rotation.StateMonitor.find", lambda uuid: board)
        patch.setattr("cuprof.worker.energy.time", board)
        return watched.run()["sound_first"], watched


def test_energy_belongs_to_the_first_measure(family: Family) -> None:
    outcome, watched = run_with_energy(family, Board(), methods=BOTH)
    cold, hot = outcome.timings
    assert cold.energy is not None
    assert cold.energy.mean_w == pytest.approx(5.0, rel=0.02)
    assert cold.details["energy_executions"] > 0
    assert hot.energy is None
    assert ENERGY_UNAVAILABLE not in hot.details
    # The loop may last longer than the limit of one step, so the page says again and again that it goes on.
    assert watched.entered.count((0, Phase.TIME)) > 20


@pytest.mark.parametrize(
    ("board", "reason"),
    [
        (None, "NVML does not know the device"),
        (Board(None), "NVML has no energy counter for the device"),
        (Board(0), "the energy counter of the device does not move"),
    ],
)
def test_energy_that_cannot_be_told_says_why(family: Family, board: Board | None, reason: str) -> None:
    outcome, _ = run_with_energy(family, board)
    assert outcome.state is State.OK
    assert outcome.timings[0].energy is None
    assert outcome.timings[0].details[ENERGY_UNAVAILABLE] == reason


def test_nobody_expects_energy_of_a_cpu(family: Family) -> None:
    outcome = run(family, "sound_first", measure=replace(QUICK, energy=True))["sound_first"]
    assert ENERGY_UNAVAILABLE not in outcome.timings[0].details
    assert outcome.timings[0].details["correction_ns"] == 0.0
