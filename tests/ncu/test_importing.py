"""Taking in reports made elsewhere, into a real database."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuprof.cli.ncu import main_import
from cuprof.core.errors import ProfilerError
from cuprof.core.records import DeviceFacts, State, SweepFacts, Trial
from cuprof.engine.importing import ImportResult, import_reports
from cuprof.ncu.launches import Owner
from cuprof.ncu.report_file import read_report
from cuprof.results.queries import query
from cuprof.store.store import Store

ONE, TWO, CRASH = "1" * 32, "2" * 32, "c" * 32
PROFILES = """
SELECT
    t.identity, f.state, f.message, f.metrics,
    (SELECT COUNT(*) FROM launch l WHERE l.profile_id = f.id) AS launches,
    (SELECT COUNT(*) FROM trial_counter c WHERE c.profile_id = f.id) AS rolled
FROM profile f LEFT JOIN trial t ON t.id = f.trial_id ORDER BY f.id
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a database that is not there yet."""
    return f"sqlite:///{tmp_path / 'db' / 'cuprof.sqlite'}"


@pytest.fixture
def enlist(url: str, make_trial: Callable[..., Trial]) -> Callable[..., None]:
    """Return a function that stores trials."""

    def write(*identities: str, **changes: Any) -> None:
        facts = SweepFacts("s", "e", "scale", "v1", "0", "", {}, "host", {}, {})
        with Store.open(url) as store:
            sweep = store.begin_sweep(facts)
            store.enlist(sweep, [make_trial(identity, source_hash="0" * 64, **changes) for identity in identities])

    return write


@pytest.fixture
def take_in(url: str, tmp_path: Path) -> Callable[..., ImportResult]:
    """Return a function that takes in one report."""

    def take(report: Path, **named: str) -> ImportResult:
        (result,) = import_reports([report], url, tmp_path / "artifacts", **named)
        return result

    return take


def list_joined(result: ImportResult) -> list[str]:
    return [group.profile.identity for group in result.taken if group.owner is Owner.TRIAL]


def test_our_ranges_join_their_trials_and_the_others_get_a_name(
    recorded: Path, tmp_path: Path, url: str, enlist: Callable[..., None], take_in: Callable[..., ImportResult]
) -> None:
    enlist(ONE)
    report = recorded / "crash.ncu-rep"
    assert list(read_report(report)) == [ONE, CRASH]
    result = take_in(report, name="by hand")
    with Store.open(url) as store:
        assert (list_joined(result), result.name, result.cache_mode) == ([ONE], "by hand", "cold")
        rows = query(
            store.url, "SELECT identity, name, metric, value FROM counters WHERE metric = 'launch__grid_dim_z'"
        )
        assert rows.values.tolist() == [[ONE, "scale/v1 · n=2^10 · block=256", "launch__grid_dim_z", 9.0]]
        foreign = query(store.url, "SELECT name FROM profile WHERE trial_id IS NULL")
        assert foreign.name.tolist() == ["by hand/cccccccc"]
    (kept,) = (tmp_path / "artifacts").iterdir()
    assert kept.read_bytes() == report.read_bytes()


def test_the_same_report_is_kept_once(
    recorded: Path, tmp_path: Path, url: str, take_in: Callable[..., ImportResult]
) -> None:
    for _ in range(2):
        take_in(recorded / "study_alone.ncu-rep")
    assert len(list((tmp_path / "artifacts").iterdir())) == 1
    assert query(url, "SELECT name FROM profile").name.tolist() == ["study_alone/11111111"]


def test_trials_that_are_not_in_the_database_stay_apart(
    recorded: Path, url: str, take_in: Callable[..., ImportResult]
) -> None:
    result = take_in(recorded / "crash.ncu-rep", name="vendor")
    with Store.open(url) as store:
        rows = query(store.url, "SELECT name, state FROM profile ORDER BY id")
        assert rows.values.tolist() == [["vendor/11111111", "ok"], ["vendor/cccccccc", "crashed"]]
        counters = query(store.url, "counters")
        assert set(counters.name) == {"vendor/11111111"}
        assert set(counters.launches) == {1}
        assert json.loads(query(store.url, "SELECT details FROM launch").details[0])["device"] == "NVIDIA H200"
    assert result.describe() == "2 trials of cuprof's not in this database, under 'vendor/IDENTITY'; 1 crashed (cold)"


def test_foreign_launches_become_rows_by_kernel(
    recorded: Path, tmp_path: Path, url: str, take_in: Callable[..., ImportResult]
) -> None:
    for name in ("crash", "instructions"):
        data = (recorded / f"{name}.ncu-rep").read_bytes()
        (tmp_path / f"{name}.ncu-rep").write_bytes(data.replace(b"cuprof-", b"theirs-"))
    first, second = (take_in(tmp_path / f"{name}.ncu-rep", name="vendor") for name in ("crash", "instructions"))
    with Store.open(url) as store:
        frame = query(store.url, "SELECT DISTINCT name, launches FROM counters ORDER BY name")
        assert frame.values.tolist() == [
            ["vendor/partial_sums", 2],
            ["vendor/strided_sum", 1],
        ]
    assert first.describe() == "2 foreign launches under 'vendor/KERNEL'; 1 crashed (cold)"
    assert second.describe() == "2 foreign launches under 'vendor/KERNEL' (cold)"


def test_a_report_of_another_device_is_not_joined(
    recorded: Path, url: str, enlist: Callable[..., None], take_in: Callable[..., ImportResult]
) -> None:
    enlist(ONE, label="scale/v1", device=DeviceFacts("cuda", 0, "Tesla T4"))
    result = take_in(recorded / "study_alone.ncu-rep")
    with Store.open(url) as store:
        (row,) = query(store.url, "SELECT trial_id, name, state, message FROM profile").itertuples()
        assert (row.trial_id, row.name, row.state) == (None, "study_alone/11111111", "ok")
        assert row.message == "not joined to scale/v1: the trial is of Tesla T4, the report of NVIDIA H200"
    assert list_joined(result) == []
    assert [(group.profile.name, group.profile.message) for group in result.taken] == [(row.name, row.message)]
    assert result.describe().startswith("1 trial of another device not joined, under 'study_alone/IDENTITY'")


def test_a_launch_that_crashed_makes_a_crashed_profile(
    recorded: Path, url: str, enlist: Callable[..., None], take_in: Callable[..., ImportResult]
) -> None:
    enlist(ONE, CRASH)
    result = take_in(recorded / "crash.ncu-rep")
    with Store.open(url) as store:
        good, bad = query(store.url, PROFILES).itertuples(index=False)
    assert (good.identity, good.state, good.message) == (ONE, State.OK, "")
    assert (bad.identity, bad.state) == (CRASH, State.CRASHED)
    assert bad.message == "launch 0 (fall) crashed: the report has no grid and no duration of it"
    assert (bad.launches, bad.rolled, bad.metrics) == (1, 0, "[]")
    assert result.describe() == "2 trials joined; 1 crashed (cold)"


def test_what_was_taken_in_is_not_taken_in_again(
    recorded: Path, url: str, enlist: Callable[..., None], take_in: Callable[..., ImportResult]
) -> None:
    report = recorded / "crash.ncu-rep"
    take_in(report)
    with Store.open(url) as store:
        count = (
            "SELECT (SELECT COUNT(*) FROM launch) AS a, (SELECT COUNT(*) FROM counter) AS b, COUNT(*) AS c FROM profile"
        )
        before = query(store.url, count).values.tolist()
        assert take_in(report).describe() == "already imported (cold)"
        assert query(store.url, count).values.tolist() == before
        enlist(ONE)
        assert take_in(report).describe() == "1 trial joined; 1 already imported (cold)"
        assert take_in(report).describe() == "already imported (cold)"
        hot = take_in(report, cache_mode="hot").describe()
        assert hot.startswith("1 trial joined; 1 trial of cuprof's not in this database")


def test_cold_and_hot_come_from_the_report_unless_said(
    recorded: Path, url: str, take_in: Callable[..., ImportResult]
) -> None:
    for name, cache_mode in (("memory_hot", ""), ("memory_cold", ""), ("memory_cold", "hot")):
        take_in(recorded / f"{name}.ncu-rep", cache_mode=cache_mode)
    found = query(url, "SELECT DISTINCT cache_mode, clock_control, artifact_id FROM profile ORDER BY id")
    assert found.cache_mode.tolist() == ["hot", "cold", "hot"]
    assert set(found.clock_control) == {"none"}


def test_the_command_says_what_it_took_in(
    recorded: Path,
    tmp_path: Path,
    url: str,
    enlist: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    enlist(ONE)
    (tmp_path / "cuprof.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    files = [str(recorded / f"{name}.ncu-rep") for name in ("study_alone", "instructions")]
    main_import([*files, "--name", "vendor", "--store", url])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{files[0]}: 1 trial joined (cold)",
        f"{files[1]}: 1 trial of cuprof's not in this database, under 'vendor/IDENTITY' (cold)",
    ]


def test_one_bad_report_and_nothing_is_stored(recorded: Path, tmp_path: Path, url: str, monkeypatch) -> None:
    (tmp_path / "cuprof.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    files = [str(recorded / f"{name}.ncu-rep") for name in ("study_alone", "truncated")]
    with pytest.raises(ProfilerError, match="cut short"):
        main_import([*files, "--store", url])
    assert not (tmp_path / "db").exists()
