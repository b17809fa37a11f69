"""Kernels with a planted hot spot, profiled on an H200: the explanation names the planted line first.

`tests/data/hot_spots.sqlite.gz` is a sweep of `tests/data/families/hot_spots` with the counters of `ncu=source`, and of
`ncu=roofline` for four variants.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuprof.report.code_section import CodeSide, code_section, explain_pair, find_waits
from cuprof.report.load import load_study
from cuprof.report.page import render, study_figures
from cuprof.report.study import Study
from cuprof.store.store import Store

DATA = Path(__file__).parents[1] / "data"
SPOTS = {
    "uncoalesced": ("thread_a_row", "blocked_columns", "swapped_indices"),
    "bank_conflicts": ("tile_by_rows", "tile_transposed", "strided_sums", "weights_by_lane"),
    "barrier_in_loop": ("one_adds_up", "warps_in_turn", "one_warp_loads"),
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    file = tmp_path_factory.mktemp("hot") / "hot_spots.sqlite"
    file.write_bytes(gzip.decompress((DATA / "hot_spots.sqlite.gz").read_bytes()))
    with Store.open(f"sqlite:///{file}") as store:
        yield load_study(store, "hot_spots")


def test_the_planted_line_is_the_first_that_is_named_in_each_of_ten_kernels(study: Study) -> None:
    named = {}
    for trial in study.best:
        if trial.variant in sum(SPOTS.values(), ()):
            (kernel,) = study.kernels(trial.id)
            found = CodeSide(trial.variant, "", (), kernel, find_waits(kernel))
            place = re.search(r"\(line (\d+)", explain_pair(found, found))
            text = kernel.text(kernel.source_name, int(place[1]) if place else 0)
            named[trial.variant] = (found.waits[0].pattern, "// planted" in text)
    wanted = {variant: (pattern, True) for pattern, variants in SPOTS.items() for variant in variants}
    missed = {variant: found for variant, found in named.items() if found != wanted[variant]}
    assert len(named) == 10
    assert missed == {}


def test_lines_of_templates_and_of_triton_are_those_of_their_sources(study: Study) -> None:
    kernels = {trial.variant: study.kernels(trial.id)[0] for trial in study.best}
    lines = kernels["templated"].lines
    texts = " ".join(lines["text"])
    for text in ("fmaf(left, right, sum)", "const float4 left = matrix[place];", "__shfl_down_sync"):
        assert text in texts  # of the three headers
    triton = kernels["triton"]
    assert triton.source_name.endswith("main_.py")
    (store_line,) = (row.text for row in triton.lines.itertuples() if "tl.store" in row.text)
    assert "tl.sum(values * weights" in store_line


def test_the_page_has_the_code_of_each_pair_and_stays_small(study: Study) -> None:
    pairs = code_section(study)
    assert len(pairs) >= 10
    assert all(pair["text"] and pair["bars"] and pair["diff"] for pair in pairs)
    assert len(render(study)) < 2_500_000


def test_counted_operations_stand_below_ceilings_that_were_measured(study: Study) -> None:
    figures = {figure.id: figure for figure in study_figures(study)}
    light = {trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in figures["figure-light"].data}
    assert set(light) == {"memory", "FP32 arithmetic"}
    assert 80 < light["memory"]["templated"] < 102
    points = {trace["name"]: trace for trace in figures["figure-roofline"].data}
    (x,) = points["templated"]["x"]
    assert x == pytest.approx(0.5, rel=0.15)  # two operations for each float that is read
