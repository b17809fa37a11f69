"""The problem that every variant solves: inputs, exact result, and how far a right result may lie from it."""

from __future__ import annotations

import math

import numpy as np

from cuprof import Array, Arrays, Point, Signature, Tolerance

UNIT_ROUNDOFF = 2.0**-24  # u of float32, round to nearest
CHAIN = 1024  # the most float32 additions one after another that a variant may make before it goes over to a tree
SIGMAS = 8  # a normal error beyond 8σ: 1 in 10^15
FLOOR = 16 * UNIT_ROUNDOFF  # above the hard bound Σ k·u of n ≤ 5, where the additions are too few for a normal law


def get_signature(problem: Point) -> Signature:
    """Return n numbers in, one number out."""
    return Signature({"x": Array((problem.n,), problem.dtype)}, {"sum": Array((1,), problem.dtype)})


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return n random numbers, none of which may be lost unnoticed.

    float32: uniform in [-1, 1). int32: uniform in ±1…±m without zero, m = min(1000, (2^31 - 1) // n): the sum of any
    part of them then lies within int32, so that every order of summation is exact and a lost element always shows.
    """
    if problem.dtype == "float32":
        x = rng.random(problem.n, dtype=np.float32)
        x *= 2
        x -= 1
        return {"x": x}
    most = min(1000, (2**31 - 1) // problem.n)
    x = rng.integers(-most, most, problem.n, dtype=np.int32)
    np.add(x, 1, out=x, where=x >= 0)
    return {"x": x}


def get_reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return the sum in float64 (pairwise, its error below 1e-9 of the tolerance) or in exact int64."""
    wide = np.float64 if problem.dtype == "float32" else np.int64
    return {"sum": np.sum(inputs["x"], dtype=wide).reshape(1)}


def get_tolerance(problem: Point, inputs: Arrays, reference: Arrays) -> Tolerance:
    """Return 8σ of the rounding error of a right float32 sum, and nothing for int32, where every sum is exact.

    Each addition that gives s rounds it by an error taken as uniform within ±u·|s|, of variance u²·s²/3, independent
    of the others (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., §2.8 and §4.2; Higham & Mary,
    SIAM J. Sci. Comput. 41(5), 2019). A partial sum of k inputs, uniform in [-1, 1), has E[s²] = k/3. Then:

        n/h chains of h additions one after another:   n/h · Σ_{k=1…h} u²·k/9  ≈  u²·n·h/18
        one level of a tree, n/m sums of m inputs:     n/m · u²·m/9            =  u²·n/9
        σ² = u²·n·(h/18 + L/9),   h = min(n, CHAIN),   L = ⌈log2 n⌉ levels at most

    8σ is 0.015 at n = 2^24 and 0.12 at 2^30, where it is largest. A lost or doubled element x shifts the sum by |x|:
    one of the mean size 0.5 is flagged at every n, and of all elements 88 in 100 even at 2^30. (A chain of 4096,
    four times CHAIN, still lies within 4 of its own σ.)
    """
    if problem.dtype != "float32":
        return Tolerance(reason="integer sums are exact: no partial sum leaves int32")
    levels = math.ceil(math.log2(problem.n))
    sigma = UNIT_ROUNDOFF * math.sqrt(problem.n * (min(problem.n, CHAIN) / 18 + levels / 9))
    return Tolerance(
        absolute=max(SIGMAS * sigma, FLOOR),
        reason=f"{SIGMAS} standard deviations of the rounding error of chains of {CHAIN} additions under a tree",
    )
