"""The tables of every command at eighty columns, letter by letter; other golden ones stand beside what they show."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from cuprof.cli import listing
from cuprof.cli.compare import OF_PAIRS, comparison_parts, markdown_lines
from cuprof.cli.diagnosis import Diagnosis, Health
from cuprof.cli.output import to_text
from cuprof.core.project import Project
from cuprof.results.queries import Rows
from tests.cli.test_comparison import comparison
from tests.conftest import Result

Cli = Callable[..., Result]


@pytest.fixture(autouse=True)
def _eighty_columns(cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_list(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        {
            "family": "reduction",
            "title": "Sum of n numbers, step by step",
            "axes": "n=2^24, dtype=float32",
            "variants": 12,
        },
        {"family": "scale", "title": "Doubling", "axes": "n=2^20", "variants": 2},
    ]
    monkeypatch.setitem(listing.LISTS, "families", (lambda project, names: iter(records), "family"))
    assert cli("list", "families").out == (
        "family     title                           axes                   variants\n"
        "──────────────────────────────────────────────────────────────────────────\n"
        "reduction  Sum of n numbers, step by step  n=2^24, dtype=float32        12\n"
        "scale      Doubling                        n=2^20                        2\n"
    )


def test_query(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(("variant", "median_us", "samples"), [[("last_warp", 16.25, 20), ("sequential", 1234.5678, 9)]])
    monkeypatch.setattr("cuprof.results.queries.read", lambda *_, **options: nullcontext(rows))
    assert cli("query", "best").out == (
        "variant     median_us  samples\n"
        "──────────────────────────────\n"
        "last_warp      16.250       20\n"
        "sequential     1234.6        9\n"
    )


def test_doctor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        Diagnosis(
            "CuPy", Health.WARNING, "not installed; CUDA variants are skipped, and so is much else", "pip install x"
        ),
        Diagnosis("Python", Health.GOOD, "3.12.1"),
    ]
    monkeypatch.setattr("cuprof.cli.doctor.examine", lambda project, store: found)
    assert cli("doctor").out == (
        "state    what    found\n"
        "──────────────────────────────────────────────────────────────────────────────\n"
        "WARNING  CuPy    not installed; CUDA variants are skipped, and so is much else\n"
        "ok       Python  3.12.1\n"
        "\n"
        "what to do:\n"
        "  CuPy: pip install x\n"
    )


def test_compare() -> None:
    lines = to_text(comparison_parts(comparison()), 80).splitlines()
    table = lines[lines.index("") + 1 :]
    assert table[: table.index("")] == GOLDEN_COMPARISON.splitlines()


GOLDEN_COMPARISON = """\
verdict  trial                       base µs  new µs  new/base          interval
────────────────────────────────────────────────────────────────────────────────
SLOWER   reduction/last|warp ·          50.0    53.0    1.0605  1.0573 to 1.0636
         n=1024, dtype=float32 ·
         block=64
faster   reduction/last|warp ·          90.0    80.0    0.8888  0.8862 to 0.8914
         n=2048, dtype=float32 ·
         block=64
same     reduction/last|warp ·         199.9   200.0    1.0007  0.9977 to 1.0036
         n=4096, dtype=float32 ·
         block=64
"""


def test_a_ratio_beside_the_quotient_of_the_medians_is_explained() -> None:
    found = comparison()
    assert OF_PAIRS not in to_text(comparison_parts(found), 200)
    rows = found.rows.assign(base_median_ns=5.10e6, new_median_ns=5.09e6, ratio=0.9839, low=0.97, high=0.99)
    beside = replace(found, rows=rows)
    assert OF_PAIRS in to_text(comparison_parts(beside), 200)
    assert f"- {OF_PAIRS}" in list(markdown_lines(beside))
