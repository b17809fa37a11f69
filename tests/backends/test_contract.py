"""What every back end promises, held against each that is registered; one without a device here is skipped.

A new back end needs no test of these: it needs the variants of tests/data/families/backends.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuprof.backends.buffers import GUARD_BYTES
from cuprof.backends.contract import (
    POISON_BYTE,
    SECOND_POISON_BYTE,
    Backend,
    Draw,
    Reading,
    ReadingOptions,
    Runnable,
    Session,
    Tally,
    arena_bytes,
)
from cuprof.backends.registry import find_facts, get_spec, list_backends, list_devices, open_backend
from cuprof.config.model import MeasureConfig
from cuprof.core.errors import BuildError, CuprofError, LaunchError
from cuprof.core.records import Measure
from cuprof.families import Array, Copy, Family, Fill, Point, Reduced, Signature, Tolerance
from cuprof.families.fingerprint import source_text
from cuprof.families.origin import load_family
from cuprof.worker.compare import compare
from cuprof.worker.sampler import Sampler, Subject

N = 1000
PROBLEM = Point(n=N)
FOLDER = Path(__file__).parents[1] / "data" / "families" / "backends"
POISONS = (POISON_BYTE, SECOND_POISON_BYTE, 0)


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family(FOLDER)


IN_MEMORY = [
    pytest.param(name, marks=[pytest.mark.gpu, pytest.mark.alone] if name == "cuda" else [])
    for name in list_backends()
    if "execute" not in get_spec(name).steps
]
"""Executables have files for arrays, and tests of their own (program/test_session.py)."""


@pytest.fixture(scope="module", params=IN_MEMORY)
def backend(request: pytest.FixtureRequest) -> Backend[Runnable]:
    try:
        return open_backend(request.param)
    except CuprofError as error:
        pytest.skip(str(error))


class Desk:
    """A session on the family's problem, and its variants by behaviour."""

    def __init__(self, backend: Backend[Runnable], family: Family, options: ReadingOptions) -> None:
        self.backend, self.family = backend, family
        self.inputs = family.generate(PROBLEM, np.random.default_rng(1))
        self.right = 2 * self.inputs["x"]
        self.session: Session[Runnable] = backend.open(family.signature(PROBLEM), self.inputs, options, 1 << 14)

    @property
    def compiles(self) -> bool:
        return self.family.variant(self.name("doubles")).kind == "kernel"

    def name(self, behaviour: str) -> str:
        return f"{behaviour}_{self.backend.spec.name}"

    def prepare(self, behaviour: str, place: int = 0, **changes: Any) -> Runnable:
        """Return a variant bound to the session; changes are of its program."""
        variant, tunables = self.family.variant(self.name(behaviour)), Point(place=place)
        if variant.kind != "kernel":
            return self.session.prepare(variant, PROBLEM, tunables, None)
        program = replace(variant.make(PROBLEM, tunables), **changes)
        assert arena_bytes(program) <= 1 << 14
        return self.session.prepare(variant, PROBLEM, tunables, program, source_text(self.family, variant))

    def stock(self, count: int, off: dict[int, float] | None = None) -> list[np.ndarray]:
        """Stock so many sets, each with its reference; return each one's x, the first being in place already.

        Args:
            off: by how much the reference of a set is wrong, by its number.
        """
        drawn = [self.inputs, *(self.family.generate(PROBLEM, np.random.default_rng(n)) for n in range(2, count + 1))]
        references = [{"y": 2.0 * each["x"] + (off or {}).get(number, 0.0)} for number, each in enumerate(drawn)]
        self.session.stock(drawn, references)
        assert self.session.stocked == count
        return [each["x"] for each in drawn]

    def y(self, runnable: Runnable) -> np.ndarray:
        return self.session.fetch(runnable)["y"]

    def execute(self, behaviour: str) -> np.ndarray:
        runnable = self.prepare(behaviour)
        self.session.poison(runnable)
        self.session.run(runnable)
        return self.y(runnable)

    def executions(self, runnable: Runnable, action: Callable[[], object]) -> float:
        """Return how often `adds` ran in an action."""
        self.session.poison(runnable, 0)
        action()
        (count,) = set((self.y(runnable) / self.inputs["x"]).tolist())
        return float(count)


@pytest.fixture
def open_desk(backend: Backend[Runnable], family: Family) -> Iterator[Callable[..., Desk]]:
    opened: list[Desk] = []

    def make(**options: Any) -> Desk:
        opened.append(Desk(backend, family, ReadingOptions(**options)))
        return opened[-1]

    yield make
    for desk in opened:
        desk.session.close()


@pytest.fixture
def desk(open_desk: Callable[..., Desk]) -> Desk:
    return open_desk()


def test_facts_identify_the_device_and_name_no_host(backend: Backend[Runnable]) -> None:
    facts, spec = backend.facts(), backend.spec
    assert spec is get_spec(spec.name)
    assert (facts.backend, facts.index) == (spec.name, 0)
    assert facts.name
    assert facts.memory_bytes > 1 << 28
    assert facts.identity["name"] == facts.name
    assert all(isinstance(value, str) and value for value in facts.identity.values())
    assert facts.details["host"] not in facts.identity.values()
    assert backend.facts() == facts
    assert find_facts(spec.name) in (facts, None)


def test_the_device_is_listed_under_the_number_that_opens_it(backend: Backend[Runnable]) -> None:
    listed = {device.index: device for device in list_devices(backend.spec.name)}
    facts = backend.facts()
    assert listed[facts.index].name.split() == facts.name.split()
    assert all(device.details for device in listed.values())


def test_calibration_measures_read_bandwidth(backend: Backend[Runnable]) -> None:
    calibration = backend.calibrate()
    assert calibration.backend == backend.spec.name
    assert 1e6 < calibration.read_bandwidth < 1e14  # bytes a second, however busy the host is
    assert calibration.details["read_bytes"] > 0


@pytest.mark.parametrize("measure", list(Measure))
def test_corrections_and_ticks_are_durations(desk: Desk, measure: Measure) -> None:
    assert 0 <= desk.backend.correction_ns(measure) < 1e5
    assert 0 <= desk.session.tick_ns(measure) < 1e5


def test_preparing_builds_and_does_not_run(desk: Desk) -> None:
    desk.session.poison(desk.prepare("doubles"))
    runnable = desk.prepare("doubles")
    assert runnable.build.build_ns > 0
    assert runnable.steps >= 1
    assert runnable.launch_phases >= 1
    assert (desk.y(runnable).view(np.uint8) == POISON_BYTE).all()


def test_what_is_built_ahead_is_what_is_prepared(desk: Desk) -> None:
    variant = desk.family.variant(desk.name("doubles"))
    if not desk.compiles:
        desk.backend.build_ahead(desk.family.signature(PROBLEM), [])
        pytest.skip("nothing is compiled")
    program = variant.make(PROBLEM, Point(place=0))
    build = (variant, program, source_text(desk.family, variant))
    desk.backend.build_ahead(desk.family.signature(PROBLEM), [build])
    np.testing.assert_array_equal(desk.execute("doubles"), desk.right)


@pytest.mark.parametrize("behaviour", ["doubles", "ends_in_scratch"])
def test_a_run_gives_the_right_result_and_fetching_gives_copies(desk: Desk, behaviour: str) -> None:
    if behaviour == "ends_in_scratch" and not desk.compiles:
        pytest.skip("functions have no scratch")
    runnable = desk.prepare(behaviour)
    desk.session.run(runnable)
    found = desk.y(runnable)
    desk.session.poison(runnable)
    np.testing.assert_array_equal(found, desk.right)


@pytest.mark.parametrize("byte", POISONS)
def test_what_is_not_written_stays_poisoned(desk: Desk, byte: int) -> None:
    runnable = desk.prepare("begins")
    desk.session.poison(runnable, byte)
    desk.session.run(runnable)
    found = desk.y(runnable)
    np.testing.assert_array_equal(found[: N // 2], desk.right[: N // 2])
    assert (found[N // 2 :].view(np.uint8) == byte).all()
    assert desk.session.overrun_arrays() == ()


def test_an_element_of_a_result_is_spoilt_where_it_is_said_and_an_execution_mends_it(desk: Desk) -> None:
    if Measure.HOT not in desk.backend.spec.measures:
        pytest.skip("nothing is timed back to back")
    runnable = desk.prepare("doubles")
    for share, place in ((0.0, 0), (0.5, N // 2), (255 / 256, 255 * N // 256)):
        desk.session.run(runnable)
        desk.session.spoil(runnable, share, 0x7F)
        assert np.flatnonzero(desk.y(runnable) != desk.right).tolist() == [place]
    desk.session.run(runnable)
    np.testing.assert_array_equal(desk.y(runnable), desk.right)


def test_scratch_is_poisoned(desk: Desk) -> None:
    if not desk.compiles:
        pytest.skip("functions have no scratch")
    assert np.isnan(desk.execute("reads_scratch")).all()


def test_repeating_runs_so_often(desk: Desk) -> None:
    adds, twice = desk.prepare("adds"), desk.prepare("adds_twice")
    assert desk.executions(adds, lambda: desk.session.run(adds)) == 1
    assert desk.executions(adds, lambda: desk.session.run(adds, 5)) == 5
    assert desk.executions(twice, lambda: desk.session.run(twice, 3)) == 6


def test_runnables_share_arrays_and_outlive_one_another(desk: Desk) -> None:
    adds = desk.prepare("adds")
    desk.session.run(desk.prepare("doubles"))
    gc.collect()
    desk.session.run(adds)
    np.testing.assert_array_equal(desk.y(adds), 1.5 * desk.right)


def test_an_overwritten_input_is_noticed_and_restored(desk: Desk) -> None:
    session = desk.session
    session.run(desk.prepare("doubles"))
    assert (session.damaged_inputs(), session.overrun_arrays()) == ((), ())
    session.run(desk.prepare("spoils"))
    assert (session.damaged_inputs(), session.overrun_arrays()) == (("x",), ())
    session.restore_inputs()
    assert session.damaged_inputs() == ()
    np.testing.assert_array_equal(desk.execute("doubles"), desk.right)


@pytest.mark.parametrize(("array", "label"), [("x", "input x"), ("y", "output y")])
@pytest.mark.parametrize("distance", [-GUARD_BYTES, -1, 0, 63, GUARD_BYTES - 1])
def test_a_byte_outside_an_array_is_noticed_and_mended(desk: Desk, array: str, label: str, distance: int) -> None:
    session = desk.session
    runnable = desk.prepare(f"touches_{array}", distance + (4 * N if distance >= 0 else 0))
    session.poison(runnable)
    assert session.overrun_arrays() == ()
    session.run(runnable)
    assert session.overrun_arrays() == (label,)
    assert session.damaged_inputs() == ()
    session.restore_inputs()
    assert session.overrun_arrays() == ()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 5), (1001,)])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float64"])
def test_arrays_of_any_shape_lie_between_sound_guards(
    backend: Backend[Runnable], shape: tuple[int, ...], dtype: str
) -> None:
    inputs = {"x": np.ones(shape, dtype)}
    signature = Signature({"x": Array(shape, dtype)}, {"y": Array(shape, dtype), "z": Array((3,), "int8")})
    session = backend.open(signature, inputs, ReadingOptions())
    session.restore_inputs()
    assert (session.overrun_arrays(), session.damaged_inputs()) == ((), ())
    session.close()


def test_the_callers_inputs_are_its_own(backend: Backend[Runnable], family: Family) -> None:
    given = family.generate(PROBLEM, np.random.default_rng(1))
    desk = Desk(backend, family, ReadingOptions())
    desk.session.run(desk.prepare("spoils"))
    np.testing.assert_array_equal(desk.inputs["x"], given["x"])
    desk.session.restore_inputs()
    desk.inputs["x"][:] = -1
    np.testing.assert_array_equal(desk.execute("doubles"), 2 * given["x"])
    desk.session.close()


@pytest.mark.parametrize("off", [0.0, 0.25, 2.0])
def test_a_check_in_place_says_what_the_host_says_or_nothing(desk: Desk, off: float) -> None:
    runnable = desk.prepare("doubles")
    desk.session.run(runnable)
    reference, tolerance = {"y": desk.right.astype(np.float64) + off}, Tolerance(absolute=1.0)
    host = compare(desk.session.fetch(runnable), reference, tolerance, 7)
    desk.session.stock([desk.inputs], [reference])
    found = desk.session.check_in_place(runnable, tolerance, 7)
    assert host.passed is (off <= 1)
    if found is not None:
        assert (found.passed, found.message, found.seed) == (host.passed, "", 7)
        assert (found.error, found.error_absolute) == pytest.approx((host.error, host.error_absolute))
        assert found.error_relative == pytest.approx(host.error_relative, rel=1e-6)


def test_equal_results_have_equal_checksums_and_others_have_not(desk: Desk) -> None:
    desk.stock(2)
    runnable, found = desk.prepare("doubles"), []
    for number in (0, 1, 0):
        desk.session.execute(runnable, Draw(number))
        found.append(desk.session.checksum(runnable))
    if None in found:
        pytest.skip("the host holds the results")
    assert found[0] == found[2] != found[1]


def test_each_execution_is_given_the_set_and_the_byte_that_are_drawn(desk: Desk) -> None:
    xs = desk.stock(3)
    doubles, begins, adds = (desk.prepare(behaviour) for behaviour in ("doubles", "begins", "adds"))
    for number in (2, 0, 1, 1):  # one runnable, bound to one set of addresses, finds them all
        desk.session.execute(doubles, Draw(number, 0x11))
        np.testing.assert_array_equal(desk.y(doubles), 2 * xs[number])
        for fill in POISONS:
            desk.session.execute(begins, Draw(number, fill))
            found = desk.y(begins)
            np.testing.assert_array_equal(found[: N // 2], 2 * xs[number][: N // 2])
            assert (found[N // 2 :].view(np.uint8) == fill).all()
        desk.session.execute(adds, Draw(number, 0))
        np.testing.assert_array_equal(desk.y(adds), xs[number])
    assert (desk.session.damaged_inputs(), desk.session.overrun_arrays()) == ((), ())


@pytest.mark.parametrize("flush", ["clean", "none"])
def test_what_is_worked_on_in_place_holds_its_contents_before_each_execution(
    open_desk: Callable[..., Desk], flush: str
) -> None:
    desk = open_desk(flush=flush)
    desk.session.close()
    rng = np.random.default_rng(5)
    drawn = [{"x": rng.random(N, np.float32), "y": rng.random(N, np.float32)} for _ in range(2)]
    signature = desk.family.signature(PROBLEM)
    session = desk.session = desk.backend.open(signature, drawn[0], ReadingOptions(flush=flush), 1 << 14)
    adds = desk.prepare("adds")
    session.poison(adds)
    session.run(adds)
    np.testing.assert_array_equal(desk.y(adds), drawn[0]["y"] + drawn[0]["x"])
    session.stock(drawn)
    assert session.stocked == 2
    for number in (0, 1, 1, 0):
        session.execute(adds, Draw(number, 0xFF))
        np.testing.assert_array_equal(desk.y(adds), drawn[number]["y"] + drawn[number]["x"])
        for measure in desk.backend.spec.measures:
            session.begin(adds, measure, 1, lambda number=number: Draw(number, 0xFF))()  # type: ignore[misc]
            np.testing.assert_array_equal(desk.y(adds), drawn[number]["y"] + drawn[number]["x"])
    session.restore_inputs()
    session.poison(adds)
    session.run(adds)
    np.testing.assert_array_equal(desk.y(adds), drawn[0]["y"] + drawn[0]["x"])
    assert (session.damaged_inputs(), session.overrun_arrays()) == ((), ())


def test_a_set_up_is_done_before_each_execution_and_parts_are_put_together(desk: Desk) -> None:
    if "copy" not in desk.backend.spec.steps:
        pytest.skip("its programs have no set-up")
    xs = desk.stock(2)
    copies = desk.prepare("reads_scratch", setup=(Copy("x", "s"),))
    for number in (1, 0):
        desk.session.execute(copies, Draw(number, 0xFF))
        np.testing.assert_array_equal(desk.y(copies), 2 * xs[number])
    desk.session.poison(copies)
    desk.session.run(copies)
    np.testing.assert_array_equal(desk.y(copies), 2 * xs[0])
    doubles = desk.family.variant(desk.name("doubles")).make(PROBLEM, Point(place=0)).steps
    twice = desk.prepare("adds", steps=(*doubles, Copy("y", "s")), scratch={"s": Array((3 * N,), "float32")},
                         setup=(Fill("s"),), results={"y": Reduced("s", "sum")})  # fmt: skip
    assert not desk.session.expect(twice, [Tolerance()] * 2)
    desk.session.execute(twice, Draw(1, 0xFF))
    np.testing.assert_array_equal(desk.y(twice), 2 * xs[1])


def test_scratch_holds_the_byte_that_is_drawn(desk: Desk) -> None:
    if not desk.compiles:
        pytest.skip("functions have no scratch")
    desk.stock(2)
    runnable = desk.prepare("reads_scratch")
    desk.session.execute(runnable, Draw(1, 0))
    assert (desk.y(runnable) == 0).all()
    desk.session.execute(runnable, Draw(1, 0xFF))
    assert np.isnan(desk.y(runnable)).all()


def test_what_lies_in_the_first_set_is_in_place_once_stocked_and_restored(desk: Desk) -> None:
    xs, session = desk.stock(2), desk.session
    runnable = desk.prepare("doubles")
    np.testing.assert_array_equal(desk.execute("doubles"), 2 * xs[0])
    session.execute(runnable, Draw(1))
    session.restore_inputs()
    assert session.damaged_inputs() == ()
    np.testing.assert_array_equal(desk.execute("doubles"), 2 * xs[0])


@pytest.mark.parametrize("number", [0, 1])
def test_an_input_is_damaged_where_it_differs_from_what_was_drawn(desk: Desk, number: int) -> None:
    xs, session = desk.stock(2), desk.session
    session.execute(desk.prepare("spoils"), Draw(number))
    assert session.damaged_inputs() == ("x",)
    doubles = desk.prepare("doubles")
    session.execute(doubles, Draw(1 - number))  # what is written anew is whole again
    assert session.damaged_inputs() == ()
    np.testing.assert_array_equal(desk.y(doubles), 2 * xs[1 - number])


def test_results_that_are_wrong_on_one_set_are_tallied_or_fetched(desk: Desk) -> None:
    desk.stock(3, off={1: 5.0})
    runnable, tolerance = desk.prepare("doubles"), Tolerance(absolute=1.0)
    tally = desk.session.expect(runnable, [tolerance] * 3)
    for number, compared in ((0, True), (1, False), (2, True), (1, True), (1, True)):
        desk.session.execute(runnable, Draw(number, 0, compared))
    assert tally is None or tally() == Tally(4, 2)
    assert not compare({"y": desk.y(runnable)}, {"y": 2.0 * desk.inputs["x"]}, tolerance).passed  # those of set 1


def test_nothing_is_written_anew_where_the_caches_are_left_as_they_are(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(flush="none")
    further = desk.family.generate(PROBLEM, np.random.default_rng(2))
    desk.session.stock([desk.inputs, further])
    assert desk.session.stocked == 0
    adds = desk.prepare("adds")
    desk.session.poison(adds, 0)
    desk.session.execute(adds, Draw(0, 0xFF))
    desk.session.begin(adds, Measure.COLD, 1, lambda: Draw(0, 0xFF))()
    np.testing.assert_array_equal(desk.y(adds), 2 * desk.inputs["x"])


def test_waiting_leaves_everything_as_it_is(desk: Desk) -> None:
    runnable = desk.prepare("doubles")
    desk.session.run(runnable)
    desk.session.wait()
    np.testing.assert_array_equal(desk.y(runnable), desk.right)


@pytest.mark.parametrize("measure", list(Measure))
def test_a_reading_is_of_what_is_drawn_for_it(desk: Desk, measure: Measure) -> None:
    if measure not in desk.backend.spec.measures:
        pytest.skip(f"{desk.backend.spec.title} has no {measure} time")
    xs, drawn = desk.stock(3), []

    def draw() -> Draw:
        drawn.append((1, 2, 0)[len(drawn) % 3])
        return Draw(drawn[-1], 0)

    for behaviour, times in (("adds", 1), ("adds_twice", 2)):
        runnable = desk.prepare(behaviour)
        for batch in {Measure.COLD: {1, runnable.launch_phases}, Measure.HOT: {1, 5}, Measure.TOTAL: {1}}[measure]:
            before = len(drawn)
            reading = desk.session.begin(runnable, measure, batch, draw)()
            assert reading.duration_ns > 0
            assert len(drawn) - before == (batch if measure is Measure.COLD else 1)
            executions = times * (batch if measure is Measure.HOT else 1)  # since the output was overwritten
            np.testing.assert_array_equal(desk.y(runnable), executions * xs[drawn[-1]])
            assert desk.session.damaged_inputs() == ()


OPTIONS = [{}, {"flush": "dirty", "blocking": False, "pinned": False}, {"flush": "none"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("measure", list(Measure))
def test_every_measure_gives_a_duration_and_the_right_result(
    open_desk: Callable[..., Desk], measure: Measure, options: dict[str, Any]
) -> None:
    desk = open_desk(**options)
    if measure not in desk.backend.spec.measures:
        pytest.skip(f"{desk.backend.spec.title} has no {measure} time")
    readings: list[Reading] = []
    started = time.perf_counter_ns()
    for behaviour, times in (("adds", 1), ("adds_twice", 2)):
        runnable = desk.prepare(behaviour)
        for batch in {Measure.COLD: {1, runnable.launch_phases}, Measure.HOT: {1, 5}, Measure.TOTAL: {1}}[measure]:
            count = desk.executions(
                runnable,
                lambda runnable=runnable, batch=batch: readings.append(desk.session.begin(runnable, measure, batch)()),
            )
            assert count == batch * times
    elapsed_ns = time.perf_counter_ns() - started
    assert all(0 < reading.duration_ns < elapsed_ns for reading in readings)
    assert all(reading.sm_clock_mhz is None or reading.sm_clock_mhz > 1 for reading in readings)


def test_each_measure_is_sampled(desk: Desk) -> None:
    config = MeasureConfig(target=0.5, min_samples=3, max_samples=5, warmup=1)
    sampler = Sampler(desk.session, config, "m", np.random.default_rng(1), lambda key: None, settle_ns=0.0)
    runnables = [desk.prepare("doubles"), desk.prepare("adds_twice")]
    for measure in desk.backend.spec.measures:
        found = dict(sampler.sample([*map(Subject, (0, 1), runnables)], measure))
        assert sorted(found) == [0, 1]
        assert all(timing.summary.median_ns > 0 for timing in found.values())


def test_a_refused_source_carries_the_compilers_log(desk: Desk) -> None:
    if not desk.compiles:
        pytest.skip("nothing is compiled")
    with pytest.raises(BuildError, match="error") as caught:
        desk.prepare("does_not_compile")
    assert "it is said to be broken" in caught.value.log


def test_a_kernel_that_is_not_there_is_a_refused_launch(desk: Desk) -> None:
    if not desk.compiles:
        pytest.skip("functions are not looked up")
    with pytest.raises(LaunchError, match="kernel nowhere"):
        desk.prepare("lacks_its_kernel")


def test_closing_frees_what_was_held(backend: Backend[Runnable]) -> None:
    count = backend.facts().memory_bytes // 6 // 4
    signature = Signature({}, {"y": Array((count,), "float32")})
    for _ in range(10):
        session = backend.open(signature, {}, ReadingOptions())
        session.close()
