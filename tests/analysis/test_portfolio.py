"""A family's portfolio from stored runs, and its C header."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.analysis.portfolio import make_portfolio, to_header
from cuprof.errors import SelectionError
from cuprof.point import Point
from cuprof.reading.earlier import EarlierRun
from cuprof.records import State


def run(n: int, block: int, ns: float | None, device: str = "H200", state: State = State.OK) -> EarlierRun:
    return EarlierRun(
        f"{n} {block}", "plain", Point(n=n, dtype="f32"), Point(block=block, mode='a"b'), device, 1, state, "m", ns,
        None, 1e9, 10**6, (),
    )  # fmt: skip


RUNS = [
    run(64, 32, 100), run(64, 256, 130), run(1024, 32, 220), run(1024, 256, 200), run(4096, 32, 900),
    run(4096, 256, 500), run(4096, 32, None, state=State.WRONG_RESULT), run(64, 8, 1, device="other"), run(64, 32, 99),
]  # fmt: skip


def test_each_problem_takes_what_is_near_its_best() -> None:
    portfolio = make_portfolio("fold", RUNS, 0.05)
    assert portfolio.device == "H200"
    assert [point.block for _, point in portfolio.configurations] == [32, 256]
    assert [(pick.problem.n, pick.number, pick.ratio) for pick in portfolio.picks] == [
        (64, 0, 1.0), (1024, 1, 1.0), (4096, 1, 1.0)
    ]  # fmt: skip
    assert len(make_portfolio("fold", RUNS[:4], 0.35).configurations) == 1


def test_what_is_not_stored_is_told() -> None:
    with pytest.raises(SelectionError, match="no right time of family fold is stored"):
        make_portfolio("fold", [], 0.05)
    with pytest.raises(
        SelectionError, match="no time of family fold on 'A100' is stored; there are times on H200, other"
    ):
        make_portfolio("fold", RUNS, 0.05, "A100")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("axis", ["n", "d", "i", "best", "known", "default"])
def test_the_header_compiles_and_picks_by_the_nearest_problem(tmp_path: Path, axis: str) -> None:
    runs = [replace(run, problem=Point({axis: run.problem.n, "dtype": "f32"})) for run in RUNS]
    (tmp_path / "fold.h").write_text(to_header(make_portfolio("fold", runs, 0.05)))
    calls = "".join(f'printf("%g ", fold_pick({n}, "f32")->block);' for n in (10, 64, 1000, 9000))
    (tmp_path / "it.c").write_text(f'#include <stdio.h>\n#include "fold.h"\nint main(void) {{ {calls} return 0; }}\n')
    subprocess.run(["cc", "-Wall", "-Werror", "it.c", "-o", "it", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "it"], capture_output=True, text=True, check=True).stdout == "32 32 256 256 "
