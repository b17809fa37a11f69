"""`cuprof ncu-collect` from composed configuration to printed table, with the stand-in and a real database."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.cli import ncu
from cuprof.config.composer import compose
from cuprof.core.errors import ProfilerError
from cuprof.core.project import Project
from cuprof.core.records import Outcome, State, SweepFacts, Trial
from cuprof.engine.running import SweepResult
from cuprof.results.queries import query
from cuprof.store.store import Store

ONE, WRONG = "1" * 32, "0" * 32
THROUGH = ["preparing", "launching", "done"]


@pytest.fixture
def collect(
    fake_ncu, make_trial: Callable[..., Trial], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """Return a function that runs the command's task over one right and one wrong trial."""
    trials = (make_trial(ONE, source_hash="0" * 64), make_trial(WRONG, source_hash="0" * 64))
    wrong = Outcome(WRONG, State.WRONG_RESULT, "sum[0] = 3")

    def check(config, project, store, observer, backends):
        sweep = store.begin_sweep(SweepFacts("s", "e", "scale", "v1", "0", "", {}, "host", {}, {}))
        store.enlist(sweep, trials)
        failed = () if config.baseline == "wrong_as_expected" else ((trials[1], wrong),)
        return trials, {ONE: Outcome(ONE, State.OK), WRONG: wrong}, SweepResult(sweep, failed)

    monkeypatch.setattr("cuprof.engine.checking.check_trials", check)

    family = tmp_path / "project" / "kernels" / "scale" / "family.py"
    family.parent.mkdir(parents=True)
    family.write_text("")

    def run(*overrides: str) -> int:
        config = compose([f"ncu.path='{fake_ncu.folder.parent / 'ncu-link'}'", *overrides])
        return ncu.task(config, Project(tmp_path / "project"))

    (fake_ncu.folder.parent / "ncu-link").symlink_to(fake_ncu.path)
    return run


def test_what_was_collected_is_shown_and_shown_again_as_a_table_and_as_json(
    fake_ncu, collect, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    fake_ncu.plays({"recording": "study_alone", "report": "study_alone", "progress": {"all": THROUGH}})
    assert collect() == 1  # a wrong variant is a failure of the selection
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["trial", "[1]", "[2]", "[3]", "[4]", "note"]
    assert lines[2].split()[-4:] == ["9", "0.288524", "0", "4"]
    assert "wrong_result: sum[0] = 3" in lines[3]
    assert lines[5] == "[1] launch__grid_dim_z: Blocks of the grid in z: the depth of the grid."
    assert lines[6].startswith("[2] gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed in %: ")
    assert collect() == 1
    assert capsys.readouterr().out.splitlines() == lines  # the second time what is stored is printed
    assert collect("output=json", "baseline=wrong_as_expected") == 0  # and to be wrong as expected is no failure
    assert len(fake_ncu.calls) == 1  # the second ncu was started ahead, found nothing to do, and was ended
    one, wrong = json.loads(capsys.readouterr().out)
    assert one["cache_mode"] == "cold"
    assert one["counters"] == {
        "launch__grid_dim_z": 9.0,
        "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed": pytest.approx(0.28852403),
        "launch__shared_mem_per_block_dynamic": 0.0,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 4.0,
    }
    assert wrong["counters"] == {}


def test_failures_and_missing_metrics_go_to_stderr(fake_ncu, collect, capsys) -> None:
    fake_ncu.plays({"recording": "unknown_metric", "report": "unknown_metric", "progress": {"all": THROUGH}})
    assert collect("+ncu.metrics=[dram__bytes_raed.sum]") == 1
    errors = capsys.readouterr().err
    assert (
        "missing: metric dram__bytes_raed.sum does not exist on this chip; did you mean dram__bytes_read.sum" in errors
    )


def test_a_second_run_says_again_what_failed_and_what_is_missing(fake_ncu, collect, capsys) -> None:
    crash = {"recording": "crash", "report": "crash", "progress": {ONE: THROUGH[:2]}}
    fake_ncu.plays(crash, {"recording": "unknown_metric", "report": "unknown_metric", "progress": {"all": THROUGH}})
    assert collect("baseline=wrong_as_expected") == 1
    capsys.readouterr()
    assert collect("baseline=wrong_as_expected") == 1
    again = capsys.readouterr()
    assert "crashed" in again.out
    assert "crashed: under Nsight Compute" in again.err
    assert "(stored; retry=failed tries it again)" in again.err
    assert collect("+ncu.metrics=[dram__bytes_raed.sum]", "baseline=wrong_as_expected") == 1
    capsys.readouterr()
    assert collect("+ncu.metrics=[dram__bytes_raed.sum]", "baseline=wrong_as_expected") == 1
    assert "missing: metric dram__bytes_raed.sum does not exist" in capsys.readouterr().err
    assert len(fake_ncu.calls) == 2


def test_other_clocks_are_collected_anew_and_shown_for_themselves(fake_ncu, collect, capsys) -> None:
    play = {"recording": "study_alone", "report": "study_alone", "progress": {"all": THROUGH}}
    fake_ncu.plays(play, play)
    collect()
    collect("ncu.clock_control=base")
    collect()
    assert [call[call.index("--clock-control") + 1] for call in fake_ncu.calls] == ["none", "base"]


def test_patterns_and_names_without_a_suffix_show_what_they_stand_for(fake_ncu, collect, capsys) -> None:
    fake_ncu.plays({"recording": "study_alone", "report": "study_alone", "progress": {"all": THROUGH}})
    collect("output=json", "+ncu.metrics=['regex:gpu__time.*',gpu__dram_throughput]")
    counters = json.loads(capsys.readouterr().out)[0]["counters"]
    assert {"gpu__time_duration.sum", "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed"} <= {*counters}


def test_a_collection_that_ncu_brought_down_is_no_finished_sweep(fake_ncu, collect, tmp_path: Path) -> None:
    fake_ncu.plays(
        {"recording": "disk_full", "progress": {"all": THROUGH}},
        {"recording": "study_alone", "report": "study_alone", "progress": {"all": THROUGH}},
    )
    with pytest.raises(ProfilerError, match="could not save its report"):
        collect()
    with Store.open(Project(tmp_path / "project").database_url) as store:
        assert query(store.url, "SELECT state FROM sweep").state.tolist() == ["interrupted"]
        collect()
        assert query(store.url, "SELECT state FROM sweep").state.tolist()[-1] == "finished"


def test_a_folder_that_takes_no_reports_is_found_before_ncu_starts(fake_ncu, collect, tmp_path: Path) -> None:
    artifacts = Project(tmp_path / "project").artifacts
    artifacts.parent.mkdir(parents=True)
    artifacts.write_text("a file")
    with pytest.raises(ProfilerError, match="reports cannot be kept in"):
        collect()
    assert fake_ncu.calls == []


def test_help_needs_nothing(capsys) -> None:
    assert ncu.main_collect(["--help"]) == 0
    assert "+ncu.metrics=" in capsys.readouterr().out
