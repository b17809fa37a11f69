"""Counters by instruction, read from a report that Nsight Compute wrote on an H200, and stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuprof.core.records import SourceCounters
from cuprof.ncu.report_file import read_report
from cuprof.store.source_counters import as_row, from_row, opcode, unpack

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


def test_a_damaged_text_is_said_so() -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpack("AAAA")


def test_the_operation_is_the_first_word_after_a_predicate() -> None:
    assert opcode("@!P0 LDG.E.CONSTANT R4, desc[UR8][R2.64]") == "LDG.E.CONSTANT"
    assert opcode("EXIT") == "EXIT"
