"""Source and machine code of each pair on the page: a study with the counters of a recorded report."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from source_study import fill_source_study, read_launches
from study_data import Made, add_counters, open_store

from cuprof.core.project import bundled
from cuprof.ncu.metrics import METRICS, find_kind
from cuprof.report.code_section import MOST_CHANGES, code_section
from cuprof.report.counter_section import FOLD, counter_section
from cuprof.report.counter_section import MOST_CHANGES as MOST_FIRST
from cuprof.report.load import load_study
from cuprof.report.page import read_plotly, render, study_tables
from cuprof.report.study import Study
from cuprof.report.templates import say
from cuprof.results.source import KernelSource
from cuprof.store.store import Store


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    with open_store(tmp_path_factory.mktemp("code")) as store:
        sweep = fill_source_study(store)
        yield load_study(store, sweep_id=sweep, folders=[bundled("experiments")])


def test_each_pair_shows_both_sides_and_each_code_once(study: Study) -> None:
    pairs = code_section(study)
    assert [(pair["before"], pair["after"]) for pair in pairs][:2] == [
        ("interleaved_divergent", "sequential"),
        ("sequential", "last_warp"),
    ]
    sides = [side for pair in pairs for side in pair["sides"]]
    assert len({side.anchor for side in sides if side.files}) == sum(bool(side.files) for side in sides) == 5
    assert all(bool(side.files) != side.repeated for side in sides)
    assert render(study).partition('<section id="code"')[2].count('<details class="pair" open>') == 1


def test_a_line_has_its_text_share_reason_and_instructions(study: Study) -> None:
    ((file, lines),) = code_section(study)[0]["sides"][0].files
    assert file == "interleaved_divergent.cu"
    line = next(each for each in lines if each and each.line == 18)
    source = read_launches()["interleaved_divergent"][0].source
    assert source is not None
    of_line = {number for number, each in enumerate(source.lines) if each == 18}
    stalls = {reason: found for reason, found in source.stalls.items() if reason not in ("selected", "not_selected")}
    samples = sum(count for found in stalls.values() for number, count in found.items() if number in of_line)
    assert line.share == samples / sum(sum(found.values()) for found in stalls.values())
    assert line.text.strip() == "shared[thread] = i < n ? in[i] : T(0);"
    assert (line.reason, line.is_cause, len(line.sass)) == ("long_scoreboard", True, len(of_line))
    assert any("← @!P0 LDG.E.CONSTANT R4" in text for text in line.sass)


def test_launches_say_what_limits_the_occupancy(study: Study) -> None:
    facts = {name: (before, after) for name, before, after in code_section(study)[-1]["facts"]}
    assert facts["Blocks fit by"] == ("blocks and warps: 32", "registers: 2")
    assert facts["Registers a thread"] == ("16", "56")
    assert "LDG.E.EF.128" in facts["Instructions that changed in number"][1]


def test_of_a_launch_without_limits_or_of_none_at_all_nothing_is_made_up() -> None:
    counters = read_launches()["vector4"][0].source
    assert counters is not None
    bare = KernelSource("f", 1, "f", 0, "cold", None, counters, threads=64)
    lines = [
        line.split("\t") for line in say("explanation.txt", "launches", [bare, None], {"possible": [None, None]}, {})
    ]
    assert lines == [
        ["Threads a block", "64", "–"],
        ["Registers a thread", "–", "–"],
        ["Shared memory a block, byte", "0 static, 0 dynamic", "–"],
        ["Blocks fit by", "–", "–"],
    ]


def test_the_machine_codes_difference_is_folded(study: Study) -> None:
    pairs = code_section(study)
    assert pairs[0]["diff"][0] == ("=", "2 instructions with the same operations")
    assert ("-", "MUFU.RCP R4, R4") in pairs[0]["diff"]
    assert all(len(pair["diff"]) <= MOST_CHANGES for pair in pairs)
    assert pairs[-1]["changes_left"] > 0


def test_what_has_no_counters_by_instruction_is_said(store: Store) -> None:
    sweep = fill_source_study(store, without="interleaved_divergent")
    add_counters(store, sweep, "interleaved_divergent", {"f": {"launch__grid_dim_z": (1, "")}})
    pair = code_section(load_study(store, sweep_id=sweep, folders=[bundled("experiments")]))[0]
    assert (pair["text"], pair["diff"], pair["bars"]) == ("", [], [])
    assert pair["sides"][0].notes == [
        "No counters by instruction are stored for interleaved_divergent: ncu-collect with ncu=source collects them."
    ]
    assert pair["sides"][1].files


def test_equal_code_is_said_in_place_of_a_verdict(store: Store) -> None:
    sweep = fill_source_study(store, same=("interleaved_divergent", "sequential"))
    study = load_study(store, sweep_id=sweep, folders=[bundled("experiments")])
    same, other, *_ = code_section(study)
    words = "Both are the same machine code, launched alike: their times differ by noise alone."
    assert same["text"].startswith(f"{words} Before (interleaved_divergent), ")
    assert words not in other["text"]
    steps = study_tables(study)[0]
    assert {row.heading: "same code" in [cell.note for cell in row.cells] for row in steps.rows}["sequential"]


def test_a_study_without_such_counters_has_no_section(make_study) -> None:
    study = make_study([Made("a"), Made("b")])
    assert code_section(study) == []
    assert 'id="code"' not in render(study)


def test_ten_pairs_fit_into_two_and_a_half_megabytes(study: Study) -> None:
    html = render(study)
    own = html.replace(read_plotly(), "")
    section = own[own.index('<section id="code"') :]
    section = section[: section.index("</section>")]
    pairs = len(code_section(study))
    others = len(html) - len(section)
    assert others + len(section) / pairs * 10 < 2_500_000
    assert not re.search(r"<script|onclick|style=\"(?!--)", section)


def test_twenty_telling_counters_come_first_and_folds_share_a_row(study: Study) -> None:
    for pair in counter_section(study)["pairs"]:
        rows = [*pair["changes"], *pair["further"]]
        assert len(pair["changes"]) == MOST_FIRST
        assert pair["further"]
        bases = [FOLD.sub("", row["metric"], count=1) for row in rows]
        assert len(set(bases)) == len(bases)
        assert any(row["others"] for row in rows)
        known = [
            METRICS.get(row["metric"]) is not None or find_kind(row["metric"]) is not None for row in pair["further"]
        ]
        assert all(METRICS.get(row["metric"]) or find_kind(row["metric"]) for row in pair["changes"]) or not any(known)
    assert "more counters that changed" in render(study)
