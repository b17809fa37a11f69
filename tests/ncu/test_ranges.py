"""Ranges that carry identities."""

from __future__ import annotations

from cuprof.ncu.task import RANGE_PREFIX, find_identity

A, B = "a" * 32, "b" * 32


def test_identities_are_found_in_our_ranges_only() -> None:
    assert find_identity(["outer", RANGE_PREFIX + A, "inner"]) == A
    assert find_identity([RANGE_PREFIX + A, RANGE_PREFIX + B]) == B
    assert find_identity(["outer", A, f"x{RANGE_PREFIX + A}", RANGE_PREFIX + A + "0", "cuprof-" + "A" * 32]) is None
