from __future__ import annotations

import dataclasses

from msgspec.structs import replace
from study_data import CPU, GPU, NO_CUDA, STEPS, Made, add_counters

from cuprof.core.records import State
from cuprof.report.experiment import SumSpec, TableSpec
from cuprof.report.grid import grid_table
from cuprof.report.load import load_study
from cuprof.report.variants import steps_table

YAML = """
steps: [one, two]
published:
  - name: old
    file: old.csv
    rows: {device: Old card, variant: "{v}", problem.n: "{n}"}
    columns: {ms: {measure: time, unit: ms}, step: {measure: step_speedup, unit: x}}
"""
CSV = "v,n,ms,step\none,1048576,2.0,\ntwo,1048576,1.0,2.0\nhost,1048576,40,\n"


def texts(table) -> dict[str, list[str]]:
    return {row.heading: [cell.text for cell in row.cells] for row in table.rows}


def test_the_table_of_steps_to_the_cell(make_study) -> None:
    trials = [
        Made("one", 40.0, origin="kernel 1", total=400.0),
        Made("two", 10.0, total=300.0),
        Made("bad", state=State.WRONG_RESULT, error=31.0),
        Made("lib", 8.0, kind="library"),
        Made("host", 400.0, kind="cpu", device=CPU),
    ]
    table = steps_table(make_study(trials, YAML, {"old.csv": CSV}), TableSpec(title="T", published="old"))
    assert table.title == "T at n=2^20"
    assert [(column.heading, column.unit, column.published) for column in table.columns] == [
        ("Time", "µs", False),
        ("Bandwidth", "GB/s", False),
        ("Of peak", "%", False),
        ("Step", "×", False),
        ("Speedup", "×", False),
        ("Total", "µs", False),
        ("Time", "µs", True),
        ("Step", "×", True),
    ]
    assert texts(table) == {
        "one": ["40.00", "104.9", "10.5", "–", "–", "400", "2\u202f000", "–"],
        "two": ["10.00", "419.4", "41.9", "4.00", "4.00", "300", "1\u202f000", "2.00"],
        "bad": ["wrong result: error 31 × allowed", "–", "–"],
        "lib": ["8.00", "524.3", "52.4", "–", "4.99", "–", "–", "–"],
        "host": ["400.0", "10.5", "52.4", "–", "0.10", "400", "40\u202f000", "–"],
    }
    assert [row.mark for row in table.rows] == ["baseline", "", "", "fastest", ""]
    assert table.groups == (("Measured here", 6, False), ("Published: Old card (another machine)", 2, True))
    assert table.rows[0].note == "kernel 1"
    assert "39." in table.rows[0].cells[0].note
    assert "\u00a0to\u00a0" in table.rows[0].cells[0].note


def test_a_time_of_too_few_samples_has_their_number_below_it(make_study) -> None:
    trials = [Made("known", 40.0), Made("slow", 90.0, samples=3), Made("once", 10.0, samples=1)]
    table = steps_table(make_study(trials), TableSpec())
    below = {row.heading: row.cells[0].note for row in table.rows}
    assert "\u00a0to\u00a0" in below["known"]
    assert (below["slow"], below["once"]) == ("3 samples", "1 sample")
    assert "95\u00a0% interval of the median, or how many samples where they are too few for one." in table.notes[0]
    assert "too few" not in steps_table(make_study(trials[:1], name="known"), TableSpec()).notes[0]


def test_skipped_variants_keep_their_row_beside_the_published_figures(make_study) -> None:
    skip = {"state": State.SKIPPED, "message": str(NO_CUDA), "device": None, "unavailable": NO_CUDA}
    study = make_study(
        [Made("one", **skip), Made("two", **skip), Made("host", 400.0, kind="cpu", device=CPU)], YAML, {"old.csv": CSV}
    )
    table = steps_table(study, TableSpec(published="old"))
    assert texts(table)["one"] == ["skipped", "2\u202f000", "–"]
    assert table.rows[0].cells[0].span == 6
    assert any("Speedup is against host, as the baseline one has no" in note for note in table.notes)


def test_published_figures_of_another_problem_say_so(make_study) -> None:
    study = make_study([Made("one", problem={"n": 64})], YAML, {"old.csv": CSV})
    table = steps_table(study, TableSpec(published="old"))
    assert table.groups[-1][0] == "Published: Old card (another machine, at n=2^20)"


def test_a_pivot_reduces_to_the_best_and_names_its_tunables(make_study) -> None:
    trials = [
        Made("a", time, {"n": n}, tune={"block": block})
        for n, block, time in ((1024, 64, 4.0), (1024, 128, 3.0), (2048, 64, 5.0), (2048, 128, 6.0))
    ]
    trials += [Made("b", 7.5, {"n": 1024}), Made("b", problem={"n": 2048}, state=State.TIMED_OUT)]
    study = make_study(trials)
    table = grid_table(study, TableSpec(kind="pivot", rows=("variant",), columns=("problem.n",)))
    assert texts(table) == {"a": ["3.00", "5.00"], "b": ["7.50", "timed out"]}
    assert [cell.note for cell in table.rows[0].cells] == ["block=128", "block=64"]
    assert [(column.heading, column.unit) for column in table.columns] == [("1024", "µs"), ("2048", "µs")]
    tuned = grid_table(
        study, TableSpec(kind="pivot", rows=("tune.block",), columns=("problem.n",), where={"variant": "a"})
    )
    assert texts(tuned) == {"64": ["4.00", "5.00"], "128": ["3.00", "6.00"]}
    assert [cell.note for row in tuned.rows for cell in row.cells] == [""] * 4  # the block is on the axis


def test_only_tunables_that_differ_are_named_in_a_cell(make_study) -> None:
    trials = [Made("a", 10 / block, tune={"block": block, "tile": 16}) for block in (1, 2)]
    table = grid_table(make_study(trials), TableSpec(kind="pivot"))
    assert table.rows[0].cells[0].note == "block=2"


def test_speedups_may_be_against_another_variant_with_the_published_ratio_beside(make_study) -> None:
    csv = "v,n,ms,step\none,1048576,2.0,\ntwo,1048576,0.5,\nhost,1048576,40,\n"
    trials = [Made("one", 40.0), Made("two", 10.0), Made("host", 400.0, kind="cpu", device=CPU)]
    study = make_study(trials, YAML, {"old.csv": csv})
    spec = TableSpec(kind="pivot", value="speedup", against="host", published="old")
    table = grid_table(study, spec)
    assert texts(table) == {"one": ["9.99"], "two": ["39.97"], "host": ["1.00"]}
    assert [row.cells[0].published for row in table.rows] == ["Old card: 20.00", "Old card: 80.00", ""]
    assert texts(grid_table(study, TableSpec(kind="pivot", value="speedup")))["two"] == ["4.00"]


def test_what_is_wrong_on_purpose_is_no_failure_in_a_cell(make_study) -> None:
    table = grid_table(
        make_study([Made("a"), Made("racy", state=State.WRONG_RESULT, expected="wrong")]), TableSpec(kind="pivot")
    )
    assert (table.rows[1].cells[0].text, table.rows[1].cells[0].kind) == ("wrong, as expected", "missing")


def test_a_table_of_several_values_has_a_unit_a_row_and_the_launches(store, make_study) -> None:
    sweep = make_study([Made("split", 8.0), Made("fused", 2.0)]).sweep.id
    add_counters(
        store, sweep, "split", {"prods": {"grid": (9.0, ""), "use": (25.9, "byte")}, "sum": {"grid": (1.0, "")}}
    )
    add_counters(store, sweep, "fused", {"fused": {"grid": (1.0, ""), "use": (31.3, "byte")}})
    spec = TableSpec(
        title="C", kind="values", columns=("variant",), values={"Time": "time", "Depth": "grid", "Use": "use"}
    )
    table = grid_table(load_study(store, sweep_id=sweep), spec)
    assert texts(table) == {"Time": ["8.00", "2.00"], "Depth": ["9", "1"], "Use": ["25.90", "31.30"]}
    assert [row.note for row in table.rows] == ["µs", "grid", "byte, use"]
    assert table.rows[1].cells[0].note == "prods 9, sum 1"
    assert not table.folded


def test_a_table_of_values_without_any_says_how_to_get_them(make_study) -> None:
    table = grid_table(make_study([Made("a")]), TableSpec(kind="values", columns=("variant",), values={"D": "grid"}))
    assert table.rows == ()
    assert "ncu-collect experiment=invented" in table.notes[-1]


def test_published_figures_alone_are_folded(make_study) -> None:
    columns = YAML.index("    columns:")
    yaml = YAML[:columns] + "    columns: {ms: {measure: grid, unit: inst}}\n"
    study = make_study([Made("one")], yaml, {"old.csv": CSV})
    table = grid_table(study, TableSpec(kind="pivot", value="grid", published="old"))
    assert table.folded
    assert table.rows[0].cells[0].published == "Old card: 2"
    assert table.notes[0].startswith("No value of grid is stored")


def test_a_sum_row_counts_repeats_and_refuses_gaps(make_study) -> None:
    yaml = "problems: {conv1: {n: 1024}, conv2: {n: 2048}}"
    trials = [Made("a", 1.0, {"n": 1024}), Made("a", 10.0, {"n": 2048}), Made("b", 2.0, {"n": 1024})]
    spec = TableSpec(
        kind="pivot", rows=("problem",), columns=("variant",), sum=SumSpec("network", {"conv1": 1, "conv2": 3})
    )
    table = grid_table(make_study(trials, yaml), spec)
    assert texts(table) == {"conv1": ["1.00", "2.00"], "conv2": ["10.00", "–"], "network": ["31.00", "not complete"]}
    assert table.notes[-1:] == ("network: conv1 + 3 × conv2.",)


def test_parts_of_a_sum_stand_above_it_with_their_shares(make_study) -> None:
    trials = [Made("plain", time, problem={"n": n}) for n, time in ((1, 10.0), (2, 30.0), (3, 5.0))]
    yaml = "problems: {conv1: {n: 1}, conv2: {n: 2}, pool: {n: 3}}"
    parts = {"convolutions": ("conv1", "conv2"), "poolings": ("pool",), "others": ("fc",)}
    total = SumSpec("network", {"conv1": 1, "conv2": 2, "pool": 2, "fc": 0}, parts)
    spec = TableSpec(kind="pivot", rows=("problem",), columns=("variant",), sum=total)
    last = grid_table(make_study(trials, yaml), spec).rows[-4:]
    assert [(row.heading, row.cells[0].text, row.cells[0].note, row.mark) for row in last] == [
        ("convolutions", "70.00", "87.5%", "sum"),
        ("poolings", "10.00", "12.5%", "sum"),
        ("others", "not complete", "", "sum"),
        ("network", "80.00", "", "sum"),
    ]


def test_a_speedup_with_transfers_is_of_totals(make_study) -> None:
    trials = [Made("one", 40.0, total=800.0), Made("host", 400.0, kind="cpu", device=CPU)]
    spec = TableSpec(kind="pivot", rows=("variant",), columns=("problem.n",), against="host")
    study = make_study(trials)
    totals = grid_table(study, replace(spec, value="total_speedup"))
    assert texts(totals) == {"one": ["0.50"], "host": ["1.00"]}
    assert texts(grid_table(study, replace(spec, value="speedup"))) == {"one": ["10.00"], "host": ["1.00"]}


def test_the_share_of_the_data_sheet_stands_beside_that_of_the_measured_peak(make_study) -> None:
    study = make_study([Made("one", 40.0)])
    assert "Of data sheet" not in [column.heading for column in steps_table(study, TableSpec()).columns]
    gpu = dataclasses.replace(GPU, details={**GPU.details, "theoretical_bandwidth_gbs": 1000.0})
    table = steps_table(make_study([Made("one", 40.0, device=gpu)], name="known"), TableSpec())
    headings = [column.heading for column in table.columns]
    assert headings.index("Of data sheet") == headings.index("Of peak") + 1
    shares = dict(zip(headings, table.rows[0].cells, strict=True))
    assert (shares["Bandwidth"].text, shares["Of data sheet"].text) == ("105", "10.5")
    assert any("memory clock and bus width" in note and "1.00" in note for note in table.notes)


def test_a_speedup_that_was_published_as_such_is_shown(make_study) -> None:
    yaml = """
published:
  - name: against
    file: against.csv
    rows: {device: Old card, variant: "{v}", measure: speedup, unit: x}
    columns: {lib: {}}
"""
    spec = TableSpec(kind="pivot", rows=("variant",), columns=("problem.n",), value="speedup", against="lib")
    table = grid_table(
        make_study([Made("one", 40.0), Made("two", 20.0)], yaml, {"against.csv": "v,lib\none,2.72-2.96\n"}),
        replace(spec, published="against"),
    )
    assert table.rows[0].cells[0].published == "Old card: 2.72-2.96"
    assert table.folded, "nothing was measured against that library"


def test_a_sum_is_of_the_rows_that_it_names_alone(make_study) -> None:
    yaml = "problems: {conv1: {n: 1024}, conv2: {n: 2048}}"
    spec = TableSpec(kind="pivot", rows=("problem",), columns=("variant",), sum=SumSpec("network", {"conv1": 2}))
    more = make_study([Made("a", 1.0, {"n": 1024}), Made("a", 10.0, {"n": 2048}), Made("a", 7.0, {"n": 4096})], yaml)
    assert texts(grid_table(more, spec))["network"] == ["2.00"]
    lacking = make_study([Made("a", 10.0, {"n": 2048})], yaml, name="lacking")
    assert texts(grid_table(lacking, spec))["network"] == ["not complete"]
    all_of_them = replace(spec, sum=SumSpec("network"))
    assert texts(grid_table(more, all_of_them))["network"] == ["18.00"]


def test_energy_that_could_not_be_measured_says_why(make_study) -> None:
    study = make_study([Made("a")])
    table = grid_table(study, TableSpec(kind="pivot", value="energy"))
    assert "measure.energy=true asks for it" in table.notes[0]
    why = make_study([Made("a", energy_unavailable="NVML does not know the device")], name="why")
    table = grid_table(why, TableSpec(kind="pivot", value="power"))
    assert table.notes[0] == "Mean power was asked for and could not be measured: NVML does not know the device."


def test_published_values_stand_below_those_of_the_same_tunables(make_study) -> None:
    yaml = """
published:
  - name: cf
    file: cf.csv
    rows: {device: Old card, variant: "{v}", measure: time, unit: us}
    columns: {CF2: {tune.cf: 2}, CF4: {tune.cf: 4}}
"""
    trials = [Made("a", 5.0 * cf, tune={"cf": cf}) for cf in (2, 4, 8)] + [Made("plain", 3.0)]
    study = make_study(trials, yaml, {"cf.csv": "v,CF2,CF4\na,100,200\nplain,7,7\n"})
    spec = TableSpec(kind="pivot", rows=("variant",), columns=("tune.cf",), published="cf")
    rows = {row.heading: [cell.published for cell in row.cells] for row in grid_table(study, spec).rows}
    # "plain" has no such tunable, so figures stated for it are not its own
    assert rows == {"a": ["", "Old card: 100.0", "Old card: 200.0", ""], "plain": ["", "", "", ""]}


def test_a_table_of_counters_that_were_not_collected_says_how(make_study) -> None:
    table = grid_table(make_study([Made("a")]), TableSpec(title="Occ", kind="pivot", value="sm__warps_active.pct"))
    assert table.rows == ()
    assert table.notes[-1].startswith("No value of sm__warps_active.pct is stored")


def test_a_table_of_counters(store, make_study) -> None:
    sweep = make_study([Made("a"), Made("b", 5.0)]).sweep.id
    add_counters(store, sweep, "b", {"k": {"inst": (1234.0, "inst")}})
    table = grid_table(load_study(store, sweep_id=sweep), TableSpec(kind="pivot", value="inst", columns=("problem.n",)))
    assert texts(table) == {"a": ["–"], "b": ["1\u202f234"]}
    assert table.columns[0].unit == "inst"


def test_every_quantity_can_be_tabled(make_study) -> None:
    study = make_study([Made(name, energy_j=0.5) for name in STEPS])
    for value in ("share", "speedup", "energy", "error", "bandwidth", "rate"):
        table = grid_table(study, TableSpec(kind="pivot", value=value))
        assert len(table.rows) == 5, value


def test_tables_of_counters_have_one_cache_mode_and_say_which(store, make_study) -> None:
    sweep = make_study([Made("a"), Made("b"), Made("c")]).sweep.id
    add_counters(store, sweep, "a", {"k": {"inst": (10.0, "inst")}})
    add_counters(store, sweep, "b", {"k": {"inst": (20.0, "inst"), "only": (1.0, "inst")}}, "hot")
    study = load_study(store, sweep_id=sweep)
    cold = "Counters are cold: the caches were emptied before every pass."
    table = grid_table(study, TableSpec(kind="pivot", value="inst"))
    assert texts(table) == {"a": ["10"], "b": ["profiled hot only"], "c": ["–"]}
    assert [row.cells[0].kind for row in table.rows] == ["number", "missing", "missing"]
    assert table.notes[-1] == cold
    values = grid_table(study, TableSpec(kind="values", columns=("variant",), values={"I": "inst"}))
    assert texts(values) == {"I": ["10", "profiled hot only", "–"]}
    assert values.notes[-1] == cold
    nothing = grid_table(study, TableSpec(kind="pivot", value="only"))
    assert nothing.rows == ()
    assert nothing.notes[-1].startswith("Profiled hot only, so not compared with cold counters: b (1 trial);")


def test_a_pivot_of_a_counter_has_its_short_heading_and_names_the_counter_below(store, make_study) -> None:
    name = "sm__warps_active.avg.pct_of_peak_sustained_active"
    sweep = make_study([Made("a")]).sweep.id
    add_counters(store, sweep, "a", {"k": {name: (80.0, "%")}})
    table = grid_table(load_study(store, sweep_id=sweep), TableSpec(kind="pivot", value=name))
    assert table.columns[0].group == "Occupancy reached, by problem"
    assert f"Occupancy reached: {name}." in table.notes


def test_published_counters_of_kernels_stand_beside_our_own_of_each(store, make_study) -> None:
    yaml = """
published:
  - name: old
    file: old.csv
    rows: {device: Old card, measure: "{metric}", unit: ""}
    columns:
      first: {variant: split, kernel: prods}
      second: {variant: split, kernel: sum}
      fused: {variant: fused}
"""
    files = {"old.csv": "metric,first,second,fused\ngrid,9,1,1\nuse,0.6-0.9,32,31.34\n"}
    study = make_study([Made("split"), Made("fused")], yaml, files)
    add_counters(store, study.sweep.id, "split", {"prods": {"grid": (9.0, "")}, "sum": {"grid": (1.0, "")}})
    study = load_study(store, sweep_id=study.sweep.id, folders=[study.experiment.folder.parent])
    spec = TableSpec(kind="values", columns=("variant",), values={"Depth": "grid", "Use": "use"}, published="old")
    cells = [row.cells for row in grid_table(study, spec).rows]
    assert cells[0][0].note == "prods 9, sum 1"
    assert [[cell.published for cell in row] for row in cells] == [
        ["Old card: prods 9, sum 1", "Old card: 1"],
        ["Old card: prods 0.6-0.9, sum 32.00", "Old card: 31.34"],
    ]


def test_a_step_that_is_wrong_on_purpose_is_no_failure(make_study) -> None:
    study = make_study([Made("a"), Made("racy", state=State.WRONG_RESULT, expected="wrong", error=31.0)])
    cell = steps_table(study, TableSpec()).rows[1].cells[0]
    assert (cell.text, cell.kind) == ("wrong, as expected: error 31 × allowed", "missing")


def test_a_pivot_shows_variants_as_its_where_lists_them(make_study) -> None:
    study = make_study([Made(name) for name in "abc"])
    spec = TableSpec(kind="pivot", rows=("problem",), columns=("variant",), where={"variant": ["c", "b", "a"]})
    assert [column.heading for column in grid_table(study, spec).columns] == ["c", "b", "a"]
    as_made = grid_table(study, replace(spec, where={"variant": "b"})), grid_table(study, replace(spec, where={}))
    assert [[column.heading for column in table.columns] for table in as_made] == [["b"], ["a", "b", "c"]]
