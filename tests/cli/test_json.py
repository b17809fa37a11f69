from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from cuprof.cli.output import print_json
from cuprof.core.point import Point
from cuprof.core.records import Check

ROWS = [{"n": n, "point": Point(n=n), "odd": [n % 2 == 1, {}, []], "text": "é\n\x1b"} for n in range(9)]


def shown(value: Any, capsys: pytest.CaptureFixture[str]) -> str:
    print_json(value)
    return capsys.readouterr().out


def test_records_and_mappings_are_objects(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown({"before": [1, {"a": None}], "rows": ROWS, "check": Check(True, math.inf, 0.5, 0.0)}, capsys)
    check = {"passed": True, "error": None, "error_absolute": 0.5, "error_relative": 0.0, "message": "", "seed": 0}
    rows = [{**row, "point": {"n": row["n"]}} for row in ROWS]
    assert json.loads(text) == {"before": [1, {"a": None}], "rows": rows, "check": check}
    assert "\x1b" not in text


def test_numbers_that_json_lacks_are_null_and_texts_of_no_encoding_stay(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [math.nan, -math.inf, np.float64("nan"), np.float32(0.5), np.int64(7), 2**80, 1e-300]
    expected = [None, None, None, 0.5, 7, 2**80, 1e-300]
    for name in ("é", "\udcff"):
        assert json.loads(shown({"name": name, "numbers": numbers}, capsys)) == {"name": name, "numbers": expected}
