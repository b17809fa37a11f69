"""One computation with every kind of output, and variants each of which is wrong in one kind alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import kstest

from cuprof import (
    Array,
    Axis,
    Chance,
    Copy,
    Family,
    Fill,
    Launch,
    Program,
    Reduced,
    Repeat,
    Signature,
    Tolerance,
    Tunable,
)

ROW, MOST = 16, 8
"""One row of the sparse matrix for so many numbers, of at most so many elements."""
POINT = np.dtype([("value", "f4"), ("index", "i4")])
ROUNDS = 50
FAULTS = (
    "in_place",  # adds twice
    "tolerance",  # off by no more than another output's tolerance
    "order",  # the right numbers, in another order
    "border",  # leaves one element that is not masked unwritten
    "count",  # one more than there are
    "pairs",  # keeps the right numbers under others' places
    "misses",  # keeps one twice and another not at all
    "sparse",  # a row lacks its last element
    "bfloat16",  # two units in the last place off
    "float8",  # one NaN
    "complex",  # the conjugate
    "struct",  # one field of one element
    "random",  # numbers whose squares are uniform
    "iterations",  # ends a round too early
    "parts",  # leaves one part out
)


def signature(problem):
    n, rows = problem.n, problem.n // ROW
    numbers = Array((n,), "float32")
    return Signature(
        inputs={
            "x": numbers,
            "starts": Array((rows + 1,), "int32"),
            "columns": Array((MOST * rows,), "int32"),
            "values": Array((MOST * rows,), "float32"),
        },
        outputs={
            "sums": numbers,
            "loose": numbers,
            "exact": Array((n,), "int32"),
            "inner": numbers,
            "kept_at": Array((n,), "int32"),
            "kept": numbers,
            "count": Array((1,), "int32"),
            "product": Array((rows,), "float32"),
            "brain": Array((n,), "bfloat16"),
            "eighth": Array((n,), "float8_e4m3fn"),
            "rotated": Array((n,), "complex64"),
            "points": Array((n,), POINT),
            "drawn": numbers,
            "root": numbers,
            "rounds": Array((1,), "int32"),
            "total": Array((1,), "float32"),
        },
    )


def generate(problem, rng):
    n = problem.n
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, MOST, n // ROW))]).astype(np.int32)
    return {
        "x": rng.uniform(-1, 1, n).astype(np.float32),
        "starts": starts,
        "columns": rng.integers(0, n, starts[-1], dtype=np.int32),
        "values": rng.uniform(-1, 1, starts[-1]).astype(np.float32),
        "sums": rng.uniform(-1, 1, n).astype(np.float32),
    }


def reference(problem, inputs):
    x = inputs["x"].astype(np.float64)
    at = np.flatnonzero(x > 0)
    points = np.empty(problem.n, [("value", "f8"), ("index", "i4")])
    points["value"], points["index"] = 2 * x, np.arange(problem.n)
    around = np.ma.masked_array(np.roll(x, 1) + np.roll(x, -1), mask=False)
    around[[0, -1]] = np.ma.masked
    terms = inputs["values"] * x[inputs["columns"]]
    return {
        "sums": inputs["sums"] + x,
        "loose": 100 * x,
        "exact": (256 * x).astype(np.int32),
        "inner": around,
        "kept_at": at,
        "kept": x[at],
        "count": np.array([at.size]),
        "product": np.add.reduceat(terms, inputs["starts"][:-1]),
        "brain": x,
        "eighth": x,
        "rotated": x * (0.6 + 0.8j),
        "points": points,
        "total": np.array([np.abs(x).sum()]),
    }


def tolerance(problem, inputs, expected):
    exact, rounded = Tolerance(), Tolerance(absolute=1e-6, relative=1e-6, reason="a few roundings")
    return {
        "sums": rounded,
        "loose": Tolerance(absolute=2.0, reason="as loose as this"),
        "exact": exact,
        "inner": rounded,
        "kept_at": exact,
        "kept": exact,
        "count": exact,
        "product": rounded,
        "brain": Tolerance(relative=2.0**-8, reason="rounded to 8 bits"),
        "eighth": Tolerance(absolute=2.0**-10, relative=2.0**-4, reason="rounded to 4 bits"),
        "rotated": rounded,
        "points": exact,
        "total": Tolerance(relative=1e-4, reason="a sum in any order"),
    }


def verify(problem, inputs, outputs, expected):
    """Judge what has no one right result: the roots by what they solve, the random numbers by a test."""
    wanted = np.abs(inputs["x"].astype(np.float64)) + 1
    off = np.abs(outputs["root"].astype(np.float64) ** 2 / wanted - 1).max()
    if not off <= 1e-6:
        return f"a root is off by {off:.2g}"
    if not 1 <= outputs["rounds"][0] < ROUNDS:
        return f"{outputs['rounds'][0]} rounds"
    drawn = outputs["drawn"]
    if not ((drawn >= 0) & (drawn < 1)).all():
        return "a random number is not in [0, 1)"
    return Chance(kstest(drawn, "uniform").pvalue, "random numbers are uniform, by Kolmogorov and Smirnov")


family = Family(
    name="computations",
    title="One of each kind",
    axes=(Axis("n", 4096, low=512),),
    constraint=lambda problem: "n is no multiple of 512" if problem.n % 512 else None,
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=lambda problem: 80 * problem.n,
    in_place=("sums",),
    any_order=(("kept_at", "kept"),),
    at_most=("columns", "values", "kept_at", "kept"),
    verify=verify,
    error_rate=1e-9,
)


def compute(fault: str, x: np.ndarray, inputs: Any, outputs: Any, random: np.random.Generator) -> None:
    n, found = x.size, dict(outputs)
    found["sums"] += 2 * x if fault == "in_place" else x
    found["loose"][:] = 100 * x + 1
    found["exact"][:] = (256 * x).astype(np.int32) + (fault == "tolerance")
    if fault == "order":
        found["exact"][:] = found["exact"][::-1].copy()
    first = 2 if fault == "border" else 1
    found["inner"][first:-1] = x[first - 1 : -2] + x[first + 1 :]
    at = random.permutation(np.flatnonzero(x > 0))
    found["kept_at"][: at.size], found["kept"][: at.size] = at, x[at]
    if fault == "pairs":
        found["kept"][: at.size] = np.roll(found["kept"][: at.size], 1)
    if fault == "misses":
        found["kept_at"][0], found["kept"][0] = found["kept_at"][1], found["kept"][1]
    found["count"][0] = at.size + (fault == "count")
    starts = inputs["starts"]
    used = slice(0, starts[-1])
    terms = inputs["values"][used] * x[inputs["columns"][used]]
    if fault == "sparse":
        terms[starts[5] - 1] = 0
    found["product"][:] = np.add.reduceat(terms, starts[:-1])
    found["brain"][:] = x
    found["eighth"][:] = x
    if fault == "bfloat16":
        found["brain"].view(np.uint16)[7] += 2
    if fault == "float8":
        found["eighth"].view(np.uint8)[n // 2] = 0x7F
    found["rotated"][:] = x * np.complex64(0.6 - 0.8j if fault == "complex" else 0.6 + 0.8j)
    found["points"]["value"], found["points"]["index"] = 2 * x, np.arange(n)
    found["points"]["index"][3] += fault == "struct"
    found["drawn"][:] = random.random(n, np.float32) ** (2 if fault == "random" else 1)
    wanted = np.abs(x) + 1
    found["root"][:] = wanted
    found["rounds"][0] = 0
    for _ in range(2 if fault == "iterations" else ROUNDS):
        found["rounds"][0] += 1
        before = found["root"].copy()
        found["root"][:] = (before + wanted / before) / 2
        if np.abs(found["root"] - before).max() <= 1e-6:
            break
    found["total"][0] = np.abs(x[: n - 256 * (fault == "parts")]).sum()


def on_the_host(fault: str) -> None:
    @family.cpu(f"host_{fault}" if fault else "host", expected="wrong" if fault else "right")
    def on_host(problem, tune, inputs, outputs):
        """All of it in NumPy."""
        random = np.random.default_rng()
        return lambda: compute(fault, inputs["x"], inputs, outputs, random)


def on_the_device(fault: str) -> None:
    tunables = (Tunable("block", (256,) if fault else (128, 256), 256),)

    @family.cuda(
        f"device_{fault}" if fault else "device",
        source="kernels.cu",
        tunables=tunables,
        expected="wrong" if fault else "right",
    )
    def on_device(problem, tune):
        """One kernel, and rounds of a second one until they settle; it spoils what its set-up copies."""
        n, blocks = problem.n, problem.n // tune.block
        outputs = [name for name in signature(problem).outputs if name not in ("rounds", "total")]
        buffers = ("x", "work", "starts", "columns", "values", *outputs)
        rounds = Repeat(
            (
                Launch("refine", (blocks,), (tune.block,), ("x", "root", "state")),
                Launch("settle", (1,), (1,), ("state", "rounds", "count")),
            ),
            times=2 if fault == "iterations" else ROUNDS,
            until="state",
        )
        return Program(
            steps=(
                Fill("count"),
                Fill("state"),
                Fill("rounds"),
                Launch("compute", (blocks,), (tune.block,), (*buffers, "parts", n)),
                rounds,
            ),
            defines={"FAULT": 1 + FAULTS.index(fault) if fault else 0, "BLOCK": tune.block},
            scratch={
                "work": Array((n,), "float32"),
                "state": Array((2,), "int32"),
                "parts": Array((blocks,), "float32"),
            },
            results={"total": Reduced("parts")},
            setup=(Copy("x", "work"),),
        )


for each in ("", *FAULTS):
    on_the_host(each)
    on_the_device(each)
