"""Ranges that carry identities."""

from __future__ import annotations

from cuprof.ncu.ranges import find_identity, range_name

A, B = "a" * 32, "b" * 32


def test_identities_are_found_in_our_ranges_only() -> None:
    assert find_identity(["outer", range_name(A), "inner"]) == A
    assert find_identity([range_name(A), range_name(B)]) == B
    assert find_identity(["outer", A, f"x{range_name(A)}", range_name(A) + "0", "cuprof-" + "A" * 32]) is None
