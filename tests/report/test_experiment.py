from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuprof.core.errors import ConfigError, UsageError
from cuprof.core.project import bundled
from cuprof.report.experiment import Experiment, FigureSpec, SumSpec, TableSpec, find_experiment, load_experiment
from cuprof.report.published import read_published


def write(folder: Path, yaml: str, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(yaml, encoding="utf-8")
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


def test_an_experiment_without_a_folder_asks_for_the_standard_page(tmp_path: Path) -> None:
    assert find_experiment("nowhere", [tmp_path]) == Experiment("nowhere")
    assert find_experiment("../escape", [tmp_path]) == Experiment("../escape")
    assert find_experiment("", [tmp_path]).tables == (TableSpec(),)


def test_everything_the_schema_knows_is_read(tmp_path: Path) -> None:
    experiment = load_experiment(
        write(
            tmp_path / "x",
            """
            title: T
            reference_problem: {n: 2**24, dtype: float32}
            problems: {A: {n: 3*1024}}
            tables:
              - kind: pivot
                rows: [problem, tune.block]
                columns: variant
                value: total
                sum: {label: all, repeats: {A: 3}}
            figures: [standard, {kind: map, x: tune.a, y: tune.b, where: {problem.n: [2**10, 7]}}]
            """,
        )
    )
    assert experiment.reference_problem == {"n": 2**24, "dtype": "float32"}
    assert experiment.problem_name({"n": 3072, "m": 1}) == "A"
    (table,) = experiment.tables
    assert (table.rows, table.columns, table.sum) == (("problem", "tune.block"), ("variant",), SumSpec("all", {"A": 3}))
    assert experiment.figures == (
        "standard",
        FigureSpec(kind="map", x="tune.a", y="tune.b", where={"problem.n": [1024, 7]}),
    )


@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("titel: x", "did you mean title?"),
        ("tables: [{kind: piwot}]", "steps, pivot or values"),
        ("tables: [{kind: pivot, rows: block}]", "tune.NAME"),
        ("tables: [{published: times}]", "names published table 'times': there are none"),
        ("figures: [{x: size}]", "problem.AXIS"),
        ("published: [{name: a}]", "needs a file"),
        ("published: [{name: a, file: b, rows: {size: 3}}]", "fact 'size'"),
        ("a: [", "cannot be read"),
        ("- just\n- a list", "must be a mapping"),
        ("a: &a {b: *a}", "has more than 100000 values"),
        ("a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(40)), "more than 100000"),
        (f"a: {'[' * 600}{']' * 600}", "maximum recursion depth exceeded"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, yaml: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment(write(tmp_path / "x", yaml))
    assert says in str(caught.value)
    assert "study.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_two_files_the_damaged_one_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "x", "title: T")
    (folder / "findings.md").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"findings\.md cannot be read: 'utf-8' codec"):
        load_experiment(folder)


SPEC = """
problems: {P: {n: 4, m: 2}}
published:
  - name: t
    file: t.csv
    rows: {device: Card, problem: "{problem}", measure: "{measure}", unit: "{unit}", variant: "{kind}_{mem}"}
    columns: {CF2: {tune.cf: 2}, CF4: {tune.cf: 4}}
    names: {variant: {x_g: first, y_g: null}}
"""


def test_the_cells_of_a_csv_become_facts(tmp_path: Path) -> None:
    text = "problem,measure,unit,kind,mem,CF2,CF4\nP,time,us,x,g,1.5,\nP,LDG,inst,z,g,0.6-0.9,%7\nP,time,s,y,g,1,2\n"
    first, second, third = read_published(load_experiment(write(tmp_path / "x", SPEC, t=text)))
    assert (first.variant, first.value, first.tunables) == ("first", 1500.0, {"cf": 2})
    assert first.problem == {"n": 4, "m": 2}
    assert (second.variant, second.value, second.text) == ("z_g", None, "0.6-0.9")
    assert third.tunables == {"cf": 4}


def test_a_counter_stays_in_its_own_unit(tmp_path: Path) -> None:
    text = "problem,measure,unit,kind,mem,CF2,CF4\nP,dram.pct,%,x,g,50,\nP,share,%,x,g,50,\n"
    counter, share = read_published(load_experiment(write(tmp_path / "x", SPEC, t=text)))
    assert (counter.value, share.value) == (50.0, 0.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("problem,measure,unit,kind,CF2,CF4\nP,time,s,x,1,2\n", "no column 'mem'"),
        ("problem,measure,unit,kind,mem,CF2\nP,time,s,x,g,1\n", "has no column 'CF4'"),
        ("problem,measure,unit,kind,mem,CF2,CF4\nQ,time,s,x,g,1,2\n", "problem 'Q' is not under problems"),
        ("problem,measure,unit,kind,mem,CF2,CF4\nP,,s,x,g,1,2\n", "nothing says the measure"),
    ],
)
def test_a_csv_that_does_not_fit_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_published(load_experiment(write(tmp_path / "x", SPEC, t=text)))


def test_a_csv_that_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path / "x", SPEC))
    os.mkfifo(tmp_path / "x" / "t.csv")
    with pytest.raises(UsageError, match=r"t\.csv cannot be read: it is not a file"):
        read_published(experiment)


@pytest.mark.parametrize(
    "folder", sorted(each for each in bundled("experiments").iterdir() if each.is_dir()), ids=lambda f: f.name
)
def test_every_bundled_study_can_be_read(folder: Path) -> None:
    experiment = load_experiment(folder)
    assert experiment.title
    assert experiment.question
    values = read_published(experiment)
    for spec in experiment.published:
        assert [value for value in values if value.table == spec.name], spec.name


def test_the_reduction_table_is_read_to_the_digit() -> None:
    values = read_published(load_experiment(bundled("experiments") / "reduction"))
    times = {value.variant: value.value for value in values if value.measure == "time"}
    assert times["interleaved_divergent"] == pytest.approx(1.861e6)
    assert times["last_warp"] == pytest.approx(0.417e6)
    assert times["cpu_serial"] == pytest.approx(43_871_647.0)
    assert {value.device for value in values} == {"Tesla T4", "CPU"}


def test_published_times_of_the_processor_are_not_called_the_gpus() -> None:
    published = read_published(load_experiment(bundled("experiments") / "convlab"))
    devices = {(value.variant == "cpu", value.device) for value in published}
    assert devices == {(True, "unnamed CPU"), (False, "unnamed GPU")}


def test_the_counters_of_both_kernels_of_the_split_convolution_are_read() -> None:
    published = read_published(load_experiment(bundled("experiments") / "cuconv"))
    texts = [value.text for value in published if (value.variant, value.kernel) == ("split", "sum_taps")]
    assert texts == ["1", "0.98-1.96", "0", "32"]
