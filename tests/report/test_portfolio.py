"""A family's portfolio from stored runs, and its C header."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from cuprof.cli.best import main_portfolio as main
from cuprof.core.errors import SelectionError
from cuprof.core.point import Point
from cuprof.core.records import State
from cuprof.report.portfolio import make_portfolio, to_header
from cuprof.results.earlier import EarlierRun
from cuprof.store.store import Store


def run(n: int, block: int, ns: float | None, device: str = "H200", **facts: Any) -> EarlierRun:
    known = {"sweep_id": 1, "state": State.OK, "is_expected_wrong": False, "samples": 20, "confidence": 0.95}
    known |= {"identity": f"{n} {block}", "variant": "plain", "high_ns": ns, "method": "m", "energy_j": None}
    known |= {"started_at": 1e9, "duration_ns": 10**6, "circumstances": (), **facts}
    points = {"problem": Point(n=n, dtype="f32"), "tunables": Point(block=block, mode='a"b')}
    return EarlierRun(**known, **points, median_ns=ns, device=device)


def first_look(n: int, block: int, ns: float, high_ns: float, **facts: Any) -> EarlierRun:
    return run(n, block, ns, **{"samples": 5, "high_ns": high_ns, "confidence": 0.9375, **facts})


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


def pick_of(*runs: EarlierRun) -> tuple[float, int]:
    (pick,) = make_portfolio("fold", runs, 0.05).picks
    return pick.median_ns, pick.samples


def test_a_configuration_counts_by_the_look_with_the_most_samples() -> None:
    looks = [first_look(64, 32, 90, 91), run(64, 32, 100, samples=400), run(64, 32, 97, samples=60)]
    for order in permutations(looks):
        assert pick_of(*order) == (100, 400)
    again = [run(64, 32, 105, samples=30, sweep_id=2), first_look(64, 32, 90, 91, sweep_id=3)]
    assert pick_of(*looks, *again) == (105, 30), "of the newest sweep that took enough"
    assert pick_of(*looks, run(64, 32, None, samples=0, sweep_id=2)) == (100, 400), "a sweep of another measure"


def test_neither_an_earlier_version_nor_what_was_found_wrong_since_counts() -> None:
    old, other = run(64, 32, 50, identity="as it was", samples=400), run(64, 256, 120)
    assert pick_of(old, first_look(64, 32, 100, 104), other) == (100, 5)
    wrong = run(64, 32, None, state=State.WRONG_RESULT, identity="as it is")
    assert pick_of(old, other, wrong) == (120, 20)
    assert pick_of(run(64, 8, 20, variant="racy", is_expected_wrong=True), other) == (120, 20)


def test_few_samples_count_by_the_longest_of_them() -> None:
    """Of 64, block 8 seems to be within 5 %, and may be 12 % behind; of 1024 it is within 5 % all the same."""
    known = [run(64, 32, 100), run(1024, 256, 100), run(64, 256, 130), run(1024, 32, 130)]
    wide, narrow = first_look(64, 8, 102, 112), first_look(1024, 8, 102, 104)
    assert len(make_portfolio("fold", [*known, wide, narrow], 0.05).configurations) == 2
    portfolio = make_portfolio("fold", [*known, replace(wide, high_ns=103.0), narrow], 0.05)
    assert [point.block for _, point in portfolio.configurations] == [8]
    assert [(pick.median_ns, pick.ratio, pick.is_few) for pick in portfolio.picks] == [
        (102, 1.03, True), (102, 1.04, True)
    ]  # fmt: skip
    header = to_header(portfolio)
    assert "1 configuration within\n   5% of the best of each of 2 problems, 2 of them by few samples." in header
    lucky = make_portfolio("fold", [*known[:1], first_look(64, 8, 97, 104)], 0.0)
    assert [pick.median_ns for pick in lucky.picks] == [100], "the best is not who was lucky"


def test_the_table_says_what_is_known_by_few_samples(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run(64, 32, 100), first_look(128, 32, 9, 9)]
    monkeypatch.setattr("cuprof.results.earlier.list_earlier", lambda *_, **__: runs)
    url = f"sqlite:///{tmp_path / 'db.sqlite'}"
    Store.open(url).close()
    main(["fold", "--store", url])
    *_, few = capsys.readouterr().out.splitlines()
    assert few.startswith(
        "1 of these choices is known by few samples, the longest of which counts; cuprof sweep of them"
    )
    main(["fold", "--store", url, "--json"])
    assert [each["samples"] for each in json.loads(capsys.readouterr().out)["problems"]] == [20, 5]


def test_what_is_not_stored_is_told() -> None:
    with pytest.raises(SelectionError, match="no right time of family fold is stored"):
        make_portfolio("fold", [], 0.05)
    with pytest.raises(
        SelectionError, match="no time of family fold on 'A100' is stored; there are times on H200, other"
    ):
        make_portfolio("fold", RUNS, 0.05, "A100")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("axis", ["n", "d", "i", "best", "known", "default", "log", "i_", "best_", "NAN", "unix"])
def test_the_header_compiles_and_picks_by_the_nearest_problem(tmp_path: Path, axis: str) -> None:
    runs = [replace(run, problem=Point({axis: run.problem.n, "dtype": "f32"})) for run in RUNS]
    (tmp_path / "fold.h").write_text(to_header(make_portfolio("fold", runs, 0.05)))
    calls = "".join(f'printf("%g ", fold_pick({n}, "f32")->block);' for n in (10, 64, 1000, 9000))
    (tmp_path / "it.c").write_text(f'#include <stdio.h>\n#include "fold.h"\nint main(void) {{ {calls} return 0; }}\n')
    subprocess.run(["cc", "-Wall", "-Werror", "it.c", "-o", "it", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "it"], capture_output=True, text=True, check=True).stdout == "32 32 256 256 "


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_texts_in_the_header_are_what_they_were(tmp_path: Path) -> None:
    texts = ['q"uote', "back\\slash", "??/", "line\nfeed", "\x01", "1\x7f1", "größe", "\N{GRINNING FACE}", ""]
    problems = [Point(name=text, n=place) for place, text in enumerate(texts)]
    runs = [
        replace(RUNS[0], problem=problem, tunables=Point(name=text))
        for problem, text in zip(problems, texts, strict=True)
    ]
    (tmp_path / "fold.h").write_text(to_header(make_portfolio("fold", runs, 0.05)), "ascii")
    bytes_of = [", ".join(f"(char){byte}" for byte in [*text.encode(), 0]) for text in texts]
    tests = "".join(
        f"{{ const char t[] = {{{each}}}; bad += strcmp(fold_pick(t, 0)->name, t) != 0; }}\n" for each in bytes_of
    )
    (tmp_path / "it.c").write_text(f'#include "fold.h"\nint main(void) {{ int bad = 0; {tests} return bad; }}\n')
    subprocess.run(["cc", "-Wall", "-Werror", "it.c", "-o", "it", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "it"], check=False).returncode == 0


def test_names_in_the_header_begin_with_no_digit() -> None:
    assert "*_2_mm_pick(" in to_header(make_portfolio("2-mm", RUNS, 0.05))
