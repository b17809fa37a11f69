"""What a pair of kernels waits for: by rules, on hand-made counters and on those of a recorded report."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from source_study import REPORT, read_launches

from cuprof.core.records import SourceCounters
from cuprof.ncu.report_file import EXCESSIVE as METRICS
from cuprof.report.code_section import CodeSide, explain_pair, find_waits
from cuprof.results.source import KernelSource

TEXT = ["__global__ void f()", "load", "conflict", "barrier", "use"]
CODE = (
    "LDC R1, c[0x0][0x28]",
    "LDG.E R2, [R4.64]",
    "LDS R6, [R5]",
    "FADD R3, R6, R2",
    "BAR.SYNC.DEFER_BLOCKING 0x0",
    "@P0 BRA 0x10",
    "EXIT",
)
LINES = (1, 2, 3, 5, 4, 4, 5)


def make_kernel(
    stalls: Mapping[str, Mapping[int, int]], *, loop: int = 1, files: tuple[str, ...] = ("/tmp/f.cu",)
) -> KernelSource:
    counters = SourceCounters(
        CODE,
        tuple(range(0, 16 * len(CODE), 16)),
        files,
        (0 if files else -1,) * len(CODE),
        LINES if files else (0,) * len(CODE),
        (32, *[32 * loop] * 5, 32),
        stalls=stalls,
    )
    texts = {"/tmp/f.cu": TEXT} if files else {}
    return KernelSource("a test", 1, "f", 0, "cold", 1000.0, counters, texts, "/tmp/f.cu" if files else "")


def diagnosis(
    stalls: Mapping[str, Mapping[int, int]], excessive: Mapping[str, Mapping[int, int]] | None = None, **more: int
) -> CodeSide:
    kernel = make_kernel(stalls, **more)
    kernel = replace(kernel, counters=replace(kernel.counters, excessive=excessive or {}))
    return CodeSide("f", "", (), kernel, find_waits(kernel))


@pytest.mark.parametrize(("reason", "number"), [("short_scoreboard", 3), ("mio_throttle", 2), ("mio_throttle", 1)])
def test_a_bank_conflict_is_found_on_its_line_whatever_waits_for_it(reason: str, number: int) -> None:
    stalls = {"wait": {0: 300}, reason: {number: 200}}
    found = diagnosis(stalls, {"shared": {2: 992}}).waits[0]  # told first, though fewer samples wait for it
    assert (found.pattern, found.evidence) == ("bank_conflicts", (METRICS["shared"], 992.0))
    assert LINES[found.place if found.cause is None else found.cause] == 3
    few = diagnosis(stalls, {"shared": {2: 31}})  # less than one wavefront each time
    assert [wait.pattern for wait in few.waits] == ["", ""]


@pytest.mark.parametrize(
    ("excessive", "pattern"),
    [({"global": {1: 896}}, "uncoalesced"), ({"global": {}}, "coalesced"), ({"shared": {}}, ""), ({}, "")],
)
def test_a_load_is_said_to_be_coalesced_only_where_a_counter_says_so(
    excessive: Mapping[str, Mapping[int, int]], pattern: str
) -> None:
    found = diagnosis({"long_scoreboard": {3: 300}}, excessive).waits[0]
    assert found.pattern == pattern
    assert found.cause is not None
    assert (LINES[found.cause], LINES[found.place]) == (2, 5)


@pytest.mark.parametrize(("loop", "pattern"), [(8, "barrier_in_loop"), (1, "")])
def test_a_barrier_in_a_loop_is_one_that_warps_come_to_more_than_once(loop: int, pattern: str) -> None:
    found = diagnosis({"barrier": {5: 300}}, loop=loop).waits[0]
    assert found.pattern == pattern
    assert found.cause == 4


def test_the_paragraph_says_what_leads_and_what_stayed() -> None:
    before = diagnosis({"long_scoreboard": {3: 600}, "wait": {0: 400}, "selected": {1: 900}}, {"global": {1: 896}})
    after = diagnosis({"barrier": {5: 700}, "wait": {0: 300}}, loop=4)
    assert explain_pair(before, after) == (
        "Before (f), 60\u00a0% of the stalled samples wait for a load of global or local memory"
        " (`smsp__pcsamp_warps_issue_stalled_long_scoreboard`); accesses are not coalesced at `LDG.E R2, [R4.64]`"
        f" (line 2: `load`) (`{METRICS['global']}` is 896), and 100\u00a0% of these samples lie at `FADD R3, R6, R2`"
        " (line 5: `use`). After (f), 70\u00a0% of the stalled samples wait for the other warps of"
        " the block at a barrier (`smsp__pcsamp_warps_issue_stalled_barrier`), 100\u00a0% of them for"
        " `BAR.SYNC.DEFER_BLOCKING 0x0` (line 4: `barrier`), at `@P0 BRA 0x10` of the same line;"
        " each warp comes to this barrier 4 times (`inst_executed`)."
        " What stayed: wait (40\u00a0% before, 30\u00a0% after)."
    )


def test_too_few_samples_explain_nothing() -> None:
    few = diagnosis({"long_scoreboard": {3: 12}, "selected": {1: 5000}})
    text = explain_pair(few, diagnosis({"wait": {0: 300}}))
    assert few.waits == []
    assert (
        "only 12 stalled samples of f, too few to say what its warps wait for (smsp__pcsamp_sample_count; 200" in text
    )
    assert "What stayed" not in text


def test_without_a_line_table_instructions_are_named_alone() -> None:
    found = diagnosis({"long_scoreboard": {3: 300}}, files=())
    assert "(line " not in explain_pair(found, found)
    assert "for `LDG.E R2, [R4.64]`, at `FADD R3, R6, R2`." in explain_pair(found, found)


@pytest.mark.parametrize("variant", ["interleaved_divergent", "sequential", "last_warp", "vector4", "single_pass"])
def test_every_number_is_that_of_nsight_computes_own_page(variant: str) -> None:
    """The first launch of each kernel, against the page "source" of `ncu --import`, recorded beside the report."""
    launch = read_launches()[variant][0]
    assert launch.source is not None
    kernel = KernelSource(variant, 1, launch.kernel, 0, "cold", 1.0, launch.source)
    wait = find_waits(kernel)[0]
    page = read_page(REPORT.with_suffix(".source.csv"), launch.kernel)
    totals = Counter(
        {reason: sum(column) for reason, column in page.items() if reason not in ("selected", "not_selected")}
    )
    (lead, samples), *_ = totals.most_common(1)
    stalled = sum(totals.values())
    assert kernel.stalled == stalled
    assert NAMES.get(wait.reason, wait.reason) == lead
    assert wait.share == samples / stalled
    assert wait.place_share == page[lead][wait.place] / samples
    lines = launch.source.lines
    on_line = [number for number, line in enumerate(lines) if line == lines[wait.place]]
    of_line = sum(page[reason][number] for reason in totals for number in on_line)
    assert wait.line_share == of_line / stalled


NAMES = {"long_scoreboard": "long_sb", "short_scoreboard": "short_sb"}


def read_page(path: Path, kernel: str) -> dict[str, list[int]]:
    """Return reason, as the page names it → samples by instruction, of the kernel's first launch."""
    names: list[str] = []
    page: dict[str, list[int]] = {}
    inside = False
    for row in csv.reader(path.read_text(encoding="utf-8").splitlines()):
        if row[0] == "Kernel Name":
            if page:
                break
            inside = row[1] == kernel
        elif row[0] == "Address":
            names = row
        elif inside:
            for name, value in zip(names, row, strict=True):
                if name.startswith("stall_") and "(Not Issued)" not in name:
                    page.setdefault(name.removeprefix("stall_"), []).append(int(value or 0))
    return page
