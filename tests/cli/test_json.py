from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from cuprof.cli.output import print_json
from cuprof.core.point import Point

ROWS = [{"n": n, "point": Point(n=n), "odd": [n % 2 == 1, {}, []], "text": "é\n\x1b"} for n in range(9)]


def shown(value: Any, capsys: pytest.CaptureFixture[str]) -> str:
    print_json(value)
    return capsys.readouterr().out


@pytest.mark.parametrize("count", [0, 1, len(ROWS)])
def test_an_iterator_is_written_as_the_list_would_be(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"before": [1, {"a": None}], "rows": ROWS[:count], "after": 2}
    text = shown(data, capsys)
    assert shown({**data, "rows": iter(ROWS[:count])}, capsys) == text
    assert json.loads(text) == {**data, "rows": [{**row, "point": {"n": row["n"]}} for row in ROWS[:count]]}


def test_numbers_that_json_lacks_are_null_and_texts_of_no_encoding_stay(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [math.nan, -math.inf, np.float64("nan"), np.float32(0.5), np.int64(7), 2**80, 1e-300]
    expected = [None, None, None, 0.5, 7, 2**80, 1e-300]
    for value in ({"numbers": numbers}, {"numbers": iter(numbers)}):
        assert json.loads(shown(value, capsys)) == {"numbers": expected}
    assert json.loads(shown({"name": "\udcff", "rows": iter(["\udcff"])}, capsys)) == {
        "name": "\udcff",
        "rows": ["\udcff"],
    }
