"""Counters by instruction, read from a report that Nsight Compute wrote on an H200, and stored."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cuprof.core.records import SourceCounters, read_opcode
from cuprof.ncu.report_file import read_report
from cuprof.store.counters import as_row, from_row

REPORT = Path(__file__).parents[1] / "data" / "ncu" / "recorded" / "source_counters.ncu-rep"


@pytest.fixture(scope="module")
def sources() -> dict[str, SourceCounters]:
    """Return the counters of each kernel's first launch."""
    found: dict[str, SourceCounters] = {}
    for launch in [each for launches in read_report(REPORT).values() for each in launches]:
        assert launch.source is not None
        found.setdefault(launch.kernel, launch.source)
    return found


def test_every_instruction_has_its_line_and_its_executions(sources: dict[str, SourceCounters]) -> None:
    source = sources["interleaved_divergent"]
    assert (
        len(source.sass) == len(source.lines) == len(source.executed) == len(source.offsets) == 61
    )  # a warp was sampled behind the last one
    assert source.sass[11] == "@!P0 LDG.E.CONSTANT R4, desc[UR8][R2.64]"
    assert source.executed[11] == 131072
    assert source.files[source.file_numbers[11]].endswith("interleaved_divergent.cu")
    assert source.lines[11] == 18


def test_a_jump_names_an_offset_and_no_address(sources: dict[str, SourceCounters]) -> None:
    assert sources["interleaved_divergent"].sass[20] == "@!P1 BRA 0x330"


def test_samples_are_counted_by_reason(sources: dict[str, SourceCounters]) -> None:
    source = sources["interleaved_divergent"]
    assert source.sample_count == sum(sum(found.values()) for found in source.stalls.values()) == 5042
    assert sum(source.stalls["long_scoreboard"].values()) == 1063
    assert source.interval_cycles == 2048
    assert source.dropped_bytes == 0


def test_a_row_gives_back_what_it_was_made_of_and_is_short(sources: dict[str, SourceCounters]) -> None:
    for source in sources.values():
        row = json.loads(json.dumps(as_row(source)))
        assert from_row(row) == source
    long = sources["single_pass"]
    size = sum(len(json.dumps(value, separators=(",", ":"))) for value in as_row(long).values())
    assert size / len(long.sass) * 2000 < 60_000


def test_a_damaged_text_is_said_so(sources: dict[str, SourceCounters]) -> None:
    with pytest.raises(ValueError, match="damaged"):
        from_row({**as_row(sources["single_pass"]), "sass": "AAAA"})


def test_the_operation_is_the_first_word_after_a_predicate() -> None:
    assert read_opcode("@!P0 LDG.E.CONSTANT R4, desc[UR8][R2.64]") == "LDG.E.CONSTANT"
    assert read_opcode("EXIT") == "EXIT"


def test_every_instruction_has_the_numbers_of_nsight_computes_own_page() -> None:
    """The page "source" of `ncu --import`, recorded beside the report, with the columns that are read here."""
    launches = [launch for found in read_report(REPORT).values() for launch in found]
    pages = read_pages(REPORT.with_suffix(".source.csv"))
    assert [launch.kernel for launch in launches] == [kernel for kernel, _ in pages]
    for launch, (_, rows) in zip(launches, pages, strict=True):
        source = launch.source
        assert source is not None
        padding = [0] * (len(rows) - len(source.sass))  # that page also shows what never runs, behind the last one
        assert [int(row["Instructions Executed"]) for row in rows] == [*source.executed, *padding]
        assert [int(row["Thread Instructions Executed"]) for row in rows] == [*source.threads, *padding]
        for reason, shown in SHOWN.items():
            found = source.stalls.get(reason, {})
            assert [int(row[f"stall_{shown}"]) for row in rows] == [found.get(number, 0) for number in range(len(rows))]


SHOWN = {
    "barrier": "barrier", "branch_resolving": "branch_resolving", "dispatch_stall": "dispatch", "drain": "drain",
    "imc_miss": "imc", "lg_throttle": "lg", "long_scoreboard": "long_sb", "math_pipe_throttle": "math",
    "membar": "membar", "mio_throttle": "mio", "misc": "misc", "no_instructions": "no_inst",
    "not_selected": "not_selected", "selected": "selected", "short_scoreboard": "short_sb", "sleeping": "sleep",
    "tex_throttle": "tex", "wait": "wait",
}  # fmt: skip
"""The reasons' names in the metrics, and on the page."""


def read_pages(path: Path) -> list[tuple[str, list[dict[str, str]]]]:
    """Return kernel and rows of each launch, in the order of the report."""
    pages: list[tuple[str, list[dict[str, str]]]] = []
    names: list[str] = []
    for row in csv.reader(path.read_text(encoding="utf-8").splitlines()):
        if row[0] == "Kernel Name":
            pages.append((row[1], []))
        elif row[0] == "Address":
            names = row
        else:
            pages[-1][1].append(dict(zip(names, row, strict=True)))
    return pages
