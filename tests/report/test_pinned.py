"""Pages, pinned as data: a rebuild of the report changes nothing that a page says.

A change on purpose: `python -m tests.report.test_pinned` writes the files anew; the diff shows what pages now say.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuprof.core.project import bundled
from cuprof.core.records import State
from cuprof.report.load import load_study
from cuprof.report.study import Study
from cuprof.store.store import Store
from tests.report.page_data import page_data
from tests.report.study_data import CPU, GPU, NO_CUDA, Made, add_counters, fill, open_store, reduction

PINNED = Path(__file__).with_name("pinned")
DATABASES = Path(__file__).parents[1] / "data" / "db"
SEARCH = {"name": "gaussian", "objective": "time", "effect": 0.01, "error_rate": 0.05}
COALESCED = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
YAML = """
title: Every kind of table and figure
question: What does a page say?
steps: [one, two]
libraries: [lib]
reference_problem: {n: 2**20}
problems: {small: {n: 2**18}, large: {n: 2**20}}
published:
  - name: old
    file: old.csv
    rows: {device: Old card, variant: "{v}", problem.n: "{n}"}
    columns: {ms: {measure: time, unit: ms}, step: {measure: step_speedup, unit: x}}
  - name: counted
    file: counted.csv
    rows: {device: Old card, variant: "{v}", measure: launch__grid_size, unit: ""}
    columns: {first: {kernel: prods}, second: {kernel: sums}}
tables:
  - {kind: steps, title: Steps, published: old, note: A note of the study.}
  - {kind: pivot, title: Layers, rows: problem, columns: [variant], published: old,
     sum: {label: network, repeats: {small: 1, large: 3}}}
  - {kind: pivot, value: speedup, against: lib, rows: variant, columns: [problem.n, device]}
  - {kind: pivot, value: share, rows: [variant, tune.block], columns: problem, where: {variant: [two, one]}}
  - {kind: pivot, value: energy, rows: variant, columns: problem}
  - {kind: pivot, value: launch__grid_size, published: counted}
  - {kind: values, columns: variant, published: counted, folded: true,
     values: {Time: time, Grid: launch__grid_size,
              Coalesced: smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio}}
figures:
  - {kind: lines, x: problem.n, y: time, published: old, roof: true}
  - {kind: lines, x: problem.n, y: bandwidth, roof: true, log: [x]}
  - {kind: bars, x: variant, y: rate, series: device}
  - {kind: bars, x: problem, y: launch__grid_size, title: Grids}
  - {kind: map, x: tune.block, y: problem.n, value: time, series: variant, where: {variant: two}}
  - standard
"""
FILES = {
    "old.csv": "v,n,ms,step\none,1048576,2.0,\ntwo,1048576,1.0,2.0\nhost,1048576,40,\none,262144,about 1,\n",
    "counted.csv": "v,first,second\none,12,1\n",
}


def full() -> list[Made]:
    """Return trials that end in every way, on two devices, at two problems."""
    made = []
    for n in (2**18, 2**20):
        size, factor = {"n": n}, n / 2**20
        made += [Made("one", 40 * factor, size, origin="kernel 1", total=400.0 * factor, energy_j=2e-3 * factor)]
        made += [
            Made("two", (9 + b / 64) * factor, size, {"block": b, "v": b // 64}, total=300.0) for b in (64, 128, 256)
        ]
        made += [Made("lib", 8.0 * factor + 2, size, kind="library", spread=0.05)]
        made += [Made("lib2", 8.01 * factor + 2, size, kind="library", samples=3)]
        made += [Made("host", 400.0 * factor, size, kind="cpu", device=CPU, stopped_by="time", spread=0.3)]
        made += [Made("both", t * factor, size, device=device) for t, device in ((11.0, GPU), (700.0, CPU))]
        made += [Made("racy", problem=size, state=State.WRONG_RESULT, expected="wrong", message=f"sum = {n}")]
        made += [
            Made("bad", problem=size, state=State.WRONG_RESULT, error=31.0, message=f"out[0] = {n}", log="log " * 9)
        ]
        made += [Made("off", problem=size, state=State.SKIPPED, message=str(NO_CUDA), unavailable=NO_CUDA, device=None)]
    return [*made, Made("one", 3.0, {"n": 2**16}, excluded=30), Made("new", state=State.PLANNED)]


def tuned() -> list[Made]:
    """Return what a search has tried."""
    return [
        Made(name, base + 0.3 * (i % 8) + 0.7 * (i // 8), tune={"block": 2 ** (i % 8), "unroll": i // 8}, samples=count)
        for name, base, count in (("a", 10.0, 40), ("b", 9.5, 5))
        for i in range(32)
    ]


def make(store: Store, folder: Path, trials: list[Made], experiment: str = "", **facts: Any) -> int:
    """Write a sweep with counters of its first variants, and the invented study; return the sweep's number."""
    (folder / "invented").mkdir()
    (folder / "invented" / "study.yaml").write_text(YAML, encoding="utf-8")
    for name, text in FILES.items():
        (folder / "invented" / name).write_text(text, encoding="utf-8")
    return fill(store, trials, experiment=experiment or "invented", **facts)


def reduction_page(store: Store, folder: Path) -> Study:
    sweep = make(store, folder, reduction(), "reduction")
    for variant, value in (("interleaved_divergent", 25.87), ("first_add", 25.9), ("last_warp", 31.34)):
        launches = {"kernel": {COALESCED: (value, "byte/sector"), "dram__bytes_read.sum": (1e6 * value, "byte")}}
        add_counters(store, sweep, variant, launches)
    return load_study(store, sweep_id=sweep, folders=[bundled("experiments")])


def cpu_page(store: Store, folder: Path) -> Study:
    sweep = make(store, folder, reduction(gpu=False), "reduction", baseline="interleaved_divergent")
    return load_study(store, sweep_id=sweep, folders=[bundled("experiments")])


def full_page(store: Store, folder: Path) -> Study:
    sweep = make(store, folder, full(), finish="")
    two = {"prods": {"launch__grid_size": (9.0, ""), COALESCED: (25.9, "byte/sector")}}
    add_counters(store, sweep, "one", two | {"sums": {"launch__grid_size": (1.0, "")}})
    add_counters(store, sweep, "two", {"fused": {"launch__grid_size": (4.0, ""), COALESCED: (31.3, "byte/sector")}})
    add_counters(store, sweep, "lib", {"lib": {"launch__grid_size": (4.0, "")}}, duration_ns=90_000.0)
    add_counters(store, sweep, "both", {"both": {"launch__grid_size": (3.0, "")}}, cache_mode="hot")
    return load_study(store, sweep_id=sweep, folders=[folder])


def search_page(store: Store, folder: Path) -> Study:
    sweep = make(store, folder, tuned(), "tuned", configuration={"search": SEARCH})
    return load_study(store, sweep_id=sweep, folders=[folder])


def recorded_page(store: Store, folder: Path) -> Study:
    return load_study(store, "reduction", folders=[bundled("experiments")])


DECIMAL = re.compile(r"\d+\.\d+")
PAGES: dict[str, Callable[[Store, Path], Study]] = {
    "reduction": reduction_page,
    "cpu": cpu_page,
    "full": full_page,
    "search": search_page,
    **{f"recorded-{number:04}": recorded_page for number in (1, 7)},
}


def data_of(name: str, folder: Path) -> Any:
    """Return what a page says, without the moments and the place of its database."""
    if name.startswith("recorded"):
        shutil.copy(DATABASES / f"{name[-4:]}.sqlite", folder / "test.sqlite")
    with open_store(folder) as store:
        found = page_data(PAGES[name](store, folder))
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False).replace(str(folder), "FOLDER")
    return json.loads(re.sub(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", "MOMENT", text))


def without_decimals(data: Any) -> tuple[Any, list[float]]:
    """Return data with a mark in place of each decimal number, and these numbers."""
    text = json.dumps(data, sort_keys=True)
    return json.loads(DECIMAL.sub("0.0", text)), [float(number) for number in DECIMAL.findall(text)]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_said_before(name: str, tmp_path: Path) -> None:
    """Decimals are compared by value: a fit's sixth digit depends on the processor."""
    text, numbers = without_decimals(data_of(name, tmp_path))
    pinned = without_decimals(json.loads((PINNED / f"{name}.json").read_text(encoding="utf-8")))
    assert text == pinned[0]
    assert numbers == pytest.approx(pinned[1], rel=1e-4)


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as scratch:
            text = json.dumps(data_of(name, Path(scratch)), indent=1, sort_keys=True, ensure_ascii=False)
        (PINNED / f"{name}.json").write_text(text + "\n", encoding="utf-8")
