"""What was sealed is told from what was changed since."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cuprof.core.errors import TamperedError
from cuprof.worker.seal import Seal

RECORDS = (b"one", b"two", b"three")


def sealed() -> Seal:
    seal = Seal()
    for record in RECORDS:
        seal.add(record)
    return seal


def test_records_as_they_were_pass_again_and_again() -> None:
    seal = sealed()
    for _ in range(2):
        seal.verify(RECORDS, "Records")
    seal.add(b"four")
    seal.verify([*RECORDS, b"four"], "Records")


@pytest.mark.parametrize("changed", [(), RECORDS[:2], RECORDS[::-1], (*RECORDS, b"four"), (b"one", b"two", b"thre3")])
def test_other_records_are_told_by_the_name_of_what_holds_them(changed: Sequence[bytes]) -> None:
    with pytest.raises(TamperedError, match=r"^Records$"):
        sealed().verify(changed, "Records")


def test_nobody_makes_the_seal_of_another() -> None:
    ours, theirs = Seal(), Seal()
    ours.add(b"one")
    theirs.add(b"one")
    assert ours._sealed.digest() != theirs._sealed.digest()
