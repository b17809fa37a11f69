"""Verdicts, ratios and intervals of recorded sweeps, row by row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden import GOLDEN, iter_found


def test_recorded_sweeps_give_the_verdicts_they_gave(tmp_path: Path) -> None:
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))
    names = []
    for name, rows in iter_found(tmp_path):
        names.append(name)
        for row, wanted in zip(rows, expected[name], strict=True):
            assert row[:2] == wanted[:2]
            assert row[-1] == wanted[-1]
            for value, golden in zip(row[2:-1], wanted[2:-1], strict=True):
                assert value == pytest.approx(golden, rel=1e-7), (name, row, wanted)
    assert names == list(expected)
