"""Every kind of output, right and wrong in that kind alone, checked and timed on the CPU; what is said of bad use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuprof.backends.cpu.backend import CpuBackend
from cuprof.config.model import MeasureConfig
from cuprof.core.errors import FamilyError, FamilyFault
from cuprof.core.records import OF_FAMILY, Measure, Outcome, State
from cuprof.families import Array, Chance, Family, Point, Signature, Tolerance
from cuprof.families.arrays import by_field
from cuprof.families.fingerprint import contract_text
from cuprof.families.origin import Folder, load_family
from cuprof.families.validation import check_family
from cuprof.worker import executions
from cuprof.worker.compare import in_order
from cuprof.worker.job import Held, JobRun
from cuprof.worker.messages import Job, JobTrial
from cuprof.worker.problem import Problem
from tests.worker.pages import Page

FAMILY = Path(__file__).parents[1] / "data" / "families" / "computations"
QUICK = MeasureConfig(target=0.5, min_samples=3, max_samples=6, warmup=1, settle_seconds=0.0, flush="none")
METHODS = {Measure.COLD: "c" * 16, Measure.HOT: "h" * 16}
SAID = {
    "in_place": r"sums\[\d+\]",
    "tolerance": r"exact\[\d+\] = .* ± 0 \(exact\)",
    "order": r"exact\[\d+\]",
    "border": r"inner\[1\]",
    "count": r"count\[0\]",
    "pairs": r"kept\[\d+\]",
    "misses": r"kept_at\[\d+\]",
    "sparse": r"product\[4\]",
    "bfloat16": r"brain\[7\]",
    "float8": r"eighth\[256\] = nan",
    "complex": r"rotated\[\d+\]",
    "struct": r"points.index\[3\] = 4, expected 3",
    "random": r"verify: random numbers are uniform, by Kolmogorov and Smirnov: p = .* is below 6.08e-10",
    "iterations": r"verify: a root is off by",
    "parts": r"total\[0\]",
}


def run(family: Family, *variants: str, **changes: Any) -> dict[str, Outcome]:
    trials = tuple(JobTrial(f"{number:032x}", name, Point(), "") for number, name in enumerate(variants))
    job = replace(Job(Folder(FAMILY), "cpu", Point(n=512), trials, seed=3, measure=QUICK, methods=METHODS), **changes)
    done = JobRun(CpuBackend(1), Problem.make(family, job), job, Page(), Held()).run()  # type: ignore[arg-type]
    return {variants[finished.index]: finished.outcome for finished in done}


@pytest.fixture(scope="module", autouse=True)
def _all_are_compared() -> Iterator[None]:
    """Compare as many executions as are wanted, though a busy host leaves comparisons no time beside executions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executions, "MOST_SHARE", 1e6)
        yield


@pytest.fixture(scope="module")
def outcomes(_all_are_compared: None) -> Mapping[str, Outcome]:
    return run(load_family(FAMILY), "host", *(f"host_{fault}" for fault in SAID))


def test_the_right_variant_is_right_in_each_execution_that_is_compared(outcomes: Mapping[str, Outcome]) -> None:
    found = outcomes["host"]
    assert (found.state, found.message) == (State.OK, "")
    assert [timing.measure for timing in found.timings] == [Measure.COLD, Measure.HOT]
    assert all(timing.details["compared"] >= 2 for timing in found.timings)
    assert found.timings[1].details["batch"] == 1, "what is worked on in place is restored before each execution"


@pytest.mark.parametrize("fault", SAID)
def test_a_variant_that_is_wrong_in_one_kind_is_found(outcomes: Mapping[str, Outcome], fault: str) -> None:
    found = outcomes[f"host_{fault}"]
    assert (found.state, found.phase) == (State.WRONG_RESULT, "check")
    assert re.search(SAID[fault], found.message), found.message


PAIR = np.dtype([("a", "f4"), ("b", "i4")])


def of_shape(shape: tuple[int, ...]) -> Callable[[Any], Signature]:
    return lambda problem: Signature({"x": Array((8,), "float32")}, {"y": Array(shape, "float32")})


class Small:
    """A family whose one output is y = x; its functions are replaced by tests."""

    def __init__(self, **parts: Any) -> None:
        self.calls = 0
        array = Array((8,), "float32")
        self.family = Family(
            name="small", title="", axes=(), folder=Path(__file__).parent,
            **{
                "signature": lambda problem: Signature({"x": array}, {"y": array}),
                "generate": lambda problem, rng: {"x": rng.random(8, np.float32)},
                "reference": lambda problem, inputs: {"y": inputs["x"].astype(np.float64)},
                "tolerance": lambda problem, inputs, expected: Tolerance(),
                "useful_bytes": lambda problem: 64,
                **parts,
            },
        )  # fmt: skip

    def run(self, compute: Callable[[Any, Any, int], None], **changes: Any) -> Outcome:
        @self.family.cpu("v")
        def prepare(problem, tune, inputs, outputs):
            def call() -> None:
                self.calls += 1
                compute(inputs, outputs, self.calls)

            return call

        return run(self.family, "v", **{"methods": {}, **changes})["v"]


def copy(inputs: Any, outputs: Any, call: int) -> None:
    outputs["y"][:] = inputs["x"]


def test_a_result_that_is_wrong_only_later_is_found_by_verify() -> None:
    def late(inputs: Any, outputs: Any, call: int) -> None:
        outputs["y"] += inputs["x"] + np.float32(call > 3)

    found = Small(
        generate=lambda p, rng: {"x": rng.random(8, np.float32), "y": np.ones(8, np.float32)},
        reference=lambda *_: {},
        tolerance=lambda *_: {},
        in_place=("y",),
        verify=lambda p, inputs, outputs, e: bool((outputs["y"] == inputs["x"] + inputs["y"]).all()),
    ).run(late, methods=METHODS)
    assert found.state is State.WRONG_RESULT
    assert re.search(r"wrong in \d+ of \d+ executions that were compared: verify says that it is wrong", found.message)


def fits(results: np.ndarray) -> bool:
    """Return what a verify says that asks for faults, so that NaN has none."""
    fields = [results[name] for name in results.dtype.names or ()] or [results]
    return not any((np.abs(1 - one.astype(np.float64)) > 0.1).any() for one in fields)


@pytest.mark.parametrize(
    ("dtype", "field"), [("bool", ""), ("float32", ""), ([("a", "int32"), ("b", "bool")], ".b"), ("bfloat16", "")]
)
def test_what_nobody_wrote_is_not_shown_to_verify(dtype: Any, field: str) -> None:
    parts: dict[str, Any] = {
        "signature": lambda p: Signature({"x": Array((8,), "float32")}, {"y": Array((8,), dtype)}),
        "reference": lambda *_: {},
        "tolerance": lambda *_: {},
        "verify": lambda p, inputs, outputs, e: fits(outputs["y"]),
    }
    found = Small(**parts).run(lambda *_: None)
    assert found.state is State.WRONG_RESULT
    assert f"output y{field} holds NaN, or bytes that are no truth value" in found.message
    assert Small(**parts).run(lambda inputs, outputs, call: outputs["y"].fill(1)).state is State.OK


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_where_verify_alone_knows_what_counts_it_is_content_with_any_value_there(dtype: str) -> None:
    parts: dict[str, Any] = {
        "signature": lambda p: Signature(
            {"x": Array((8,), "float32")}, {"y": Array((8,), dtype), "y_rows": Array((1,), "int64")}
        ),
        "reference": lambda *_: {},
        "tolerance": lambda *_: {},
        "at_most": ("y",),
        "verify": lambda p, inputs, outputs, e: not (np.abs(1 - outputs["y"][: outputs["y_rows"][0]]) > 0.1).any(),
    }

    def some(count: int) -> Callable[[Any, Any, int], None]:
        def write(inputs: Any, outputs: Any, call: int) -> None:
            outputs["y"][:count], outputs["y_rows"][0] = 1, 5

        return write

    assert Small(**parts).run(some(5)).state is State.OK
    found = Small(**parts).run(some(4))
    assert (found.state, "verify says that it is wrong" in found.message) == (State.WRONG_RESULT, True)


def test_a_fault_of_verify_is_the_familys_by_function_file_and_line() -> None:
    def verify(problem, inputs, outputs, expected):
        return outputs["z"]

    found = Small(verify=verify).run(copy)
    assert (found.state, found.phase) == (State.SKIPPED, OF_FAMILY)
    line = verify.__code__.co_firstlineno + 1
    said = rf"the family's verify\(\) at n=512 raised KeyError: 'z' \(test_computations.py, line {line}, in verify\)"
    assert re.fullmatch(said, found.message), found.message


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (3, "returned a int, and must return None, True, False, a reason or a Chance"),
        (Chance(float("nan")), "gave the chance nan, not 0 to 1"),
    ],
)
def test_what_verify_returns_is_looked_at(verdict: Any, said: str) -> None:
    assert said in Small(verify=lambda *_: verdict).run(copy).message


def test_the_looks_share_the_rate_at_which_a_right_variant_is_called_wrong() -> None:
    small = Small(verify=lambda *_: Chance(1e-7), error_rate=1e-3)
    problem = Problem.make(small.family, Job(Folder(FAMILY), "cpu", Point(), (), 1, QUICK, {}))
    y = {"y": np.array(problem.sets[0]["x"])}
    passed = [problem.compare(y, problem.standards[0], Tolerance(), look).passed for look in (1, 70, 80, 10_000)]
    assert passed == [False, False, True, True]
    assert sum(1e-3 * 6 / (np.pi * look) ** 2 for look in range(1, 10_000)) == pytest.approx(1e-3, rel=1e-3)


def test_a_border_that_need_not_be_written_is_not_looked_at_and_nothing_else_is_spared() -> None:
    masked = np.array([True] + [False] * 7)
    small = Small(reference=lambda p, inputs: {"y": np.ma.masked_array(inputs["x"].astype(np.float64), masked)})

    def inner(inputs: Any, outputs: Any, call: int) -> None:
        outputs["y"][1:] = inputs["x"][1:]

    assert small.run(inner).state is State.OK
    small = Small(reference=small.family.reference)
    assert small.run(lambda i, o, call: o["y"][2:].__setitem__(slice(None), i["x"][2:])).state is State.WRONG_RESULT


def test_structs_come_in_any_order_with_a_tolerance_for_each_field() -> None:
    def as_pairs(values: Any) -> np.ndarray:
        made = np.zeros(8, PAIR)
        made["a"], made["b"] = values, np.arange(8)
        return made

    parts: dict[str, Any] = {
        "signature": lambda p: Signature({"x": Array((8,), "float32")}, {"y": Array((8,), PAIR)}),
        "reference": lambda p, inputs: {"y": as_pairs(inputs["x"])},
        "tolerance": lambda *_: {"y.a": Tolerance(relative=1e-6), "y.b": Tolerance()},
        "any_order": ("y",),
    }
    found = Small(**parts).run(lambda i, o, call: o["y"].__setitem__(slice(None), as_pairs(i["x"])[::-1]))
    assert found.state is State.OK
    found = Small(**parts).run(lambda i, o, call: o["y"].__setitem__(slice(None), as_pairs(i["x"][::-1])))
    assert found.state is State.WRONG_RESULT


def test_what_lies_behind_the_rows_of_an_input_is_no_number() -> None:
    seen: list[int] = []

    def reference(problem, inputs):
        seen.append(len(inputs["x"]))
        return {"y": np.array([inputs["x"].sum(dtype=np.float64)])}

    small = Small(
        signature=lambda p: Signature({"x": Array((8,), "float32")}, {"y": Array((1,), "float32")}),
        generate=lambda p, rng: {"x": rng.random(5 + rng.integers(3), np.float32)},
        reference=reference, tolerance=lambda *_: Tolerance(relative=1e-6), at_most=("x",),
    )  # fmt: skip
    found = small.run(lambda inputs, outputs, call: outputs["y"].__setitem__(0, inputs["x"].sum()))
    assert (found.state, "y[0] = nan" in found.message) == (State.WRONG_RESULT, True)
    parts = ("signature", "generate", "reference", "tolerance", "at_most")
    right = Small(**{part: getattr(small.family, part) for part in parts})
    assert right.run(lambda i, o, call: o["y"].__setitem__(0, np.nansum(i["x"]))).state is State.OK
    assert set(seen) <= {5, 6, 7}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"in_place": ("z",)}, "in_place names z, signature() has no output of that name"),
        ({"in_place": ("y",)}, "generate() gave output y as missing"),
        ({"tolerance": lambda *_: {}}, "gave none for y"),
        ({"tolerance": lambda *_: {"y": Tolerance(), "z": Tolerance()}}, "names z, which has no reference"),
        ({"tolerance": lambda *_: {"y": 3}}, "of y gave a int, and must give a Tolerance"),
        ({"reference": lambda p, inputs: {"y": inputs["x"][:3]}}, "reference() gave output y as float32 of shape (3,)"),
        ({"reference": lambda p, inputs: {}, "tolerance": lambda *_: {}}, "reference() gave output y as missing"),
        (
            {"any_order": ("y",), "tolerance": lambda *_: Tolerance(absolute=np.ones(8))},
            "output y comes in any order, so it has neither a mask nor a bound for each element",
        ),
        ({"at_most": ("z",)}, "at_most names z, signature() has no array of that name"),
        ({"any_order": ("z",)}, "any_order names z; signature() has the outputs y"),
        (
            {"any_order": ("y",), "reference": lambda *_: {"y": np.array(1.0)}, "signature": of_shape(())},
            "outputs whose rows come in any order together must have equally many; y has no rows",
        ),
        (
            {"signature": lambda p: Signature({"x": Array((8,), "f4")}, {"y": Array((8,), PAIR)})},
            "reference() gave output y with no fields, signature() says fields a, b",
        ),
        (
            {
                "signature": lambda p: Signature({"x": Array((8,), "f4")}, {"y": Array((8,), PAIR)}),
                "reference": lambda *_: {"y": np.zeros(8, PAIR)},
                "tolerance": lambda *_: {"y.a": Tolerance()},
            },
            "gave none for y.b",
        ),
        ({"generate": lambda p, rng: {"x": np.ones(8, "f4"), "y": np.ones(8, "f4")}}, "name it in in_place=, or leave"),
    ],
)  # fmt: skip
def test_bad_use_is_said_in_one_line(parts: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, FamilyError), match=re.escape(said)) as raised:
        Small(**parts).run(copy)
    assert not isinstance(raised.value, FamilyFault)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"in_place": "y"}, "in_place is the text 'y', and must be a tuple of names: (\"y\",)"),
        ({"verify": 3}, "verify is not a function (problem, inputs, outputs, reference)"),
        ({"error_rate": 1.0}, "error_rate is 1.0, and must lie between 0 and 1"),
    ],
)
def test_what_a_family_says_wrongly_is_found_when_it_is_loaded(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(FamilyError, match=re.escape(said)):
        check_family(replace(load_family(FAMILY), **parts))


def test_what_is_said_of_outputs_is_part_of_the_contract_and_defaults_are_not() -> None:
    family = load_family(FAMILY)
    text = contract_text(family)
    assert "# verify\n" in text
    assert "# any_order\n(('kept_at', 'kept'),)\n" in text
    plain = replace(family, in_place=(), any_order=(), at_most=(), verify=None, error_rate=1e-6)
    assert not re.search(r"^# (verify|in_place|any_order|at_most|error_rate)$", contract_text(plain), re.MULTILINE)


def test_rows_are_sorted_by_the_first_of_a_group_and_stay_together() -> None:
    arrays = {"key": np.array([3, 1, 3]), "row": np.array([[9, 2], [5, 5], [9, 1]]), "apart": np.array([2, 1, 0])}
    found = in_order(arrays, [("key", "row")])
    assert found["key"].tolist() == [1, 3, 3]
    assert found["row"].tolist() == [[5, 5], [9, 1], [9, 2]]
    assert found["apart"].tolist() == [2, 1, 0]
    structs = np.array([(2, 0.5), (1, 1.5)], [("a", "i4"), ("b", "f4")])
    fields = in_order(by_field({"p": structs}), ["p"])
    assert {name: array.tolist() for name, array in fields.items()} == {"p.a": [1, 2], "p.b": [1.5, 0.5]}


def test_a_fault_of_verify_while_executions_are_timed_is_the_familys_too() -> None:
    calls: list[int] = []

    def verify(problem, inputs, outputs, expected):
        calls.append(1)
        return None if len(calls) < 3 else outputs["z"]

    random = np.random.default_rng()

    def drawn(inputs: Any, outputs: Any, call: int) -> None:
        outputs["y"][:] = random.random(8)  # another result each time, which is looked at anew

    small = Small(
        generate=lambda p, rng: {"x": rng.random(8, np.float32), "y": np.ones(8, np.float32)},
        reference=lambda *_: {},
        tolerance=lambda *_: {},
        in_place=("y",),
        verify=verify,
    )
    found = small.run(drawn, methods=METHODS)
    assert (found.state, found.phase, found.timings) == (State.SKIPPED, OF_FAMILY, ())
    assert "the family's verify() at n=512 raised KeyError: 'z'" in found.message
