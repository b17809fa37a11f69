"""Taking in reports made elsewhere, into a real database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.commands import ncu_import
from cuprof.errors import ProfilerError
from cuprof.ncu.importing import ImportSetting, import_report, list_identities
from cuprof.records import SweepFacts, Trial
from cuprof.store import Store

ONE, CRASH = "1" * 32, "c" * 32


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a database that is not there yet."""
    return f"sqlite:///{tmp_path / 'db' / 'cuprof.sqlite'}"


@pytest.fixture
def enlist(url: str, make_trial: Callable[..., Trial]) -> Callable[..., None]:
    """Return a function that stores trials."""

    def write(*identities: str) -> None:
        facts = SweepFacts("s", "e", "scale", "v1", "0", "", {}, "host", {}, {})
        with Store.open(url) as store:
            sweep = store.begin_sweep(facts)
            store.enlist(sweep, [make_trial(identity, source_hash="0" * 64) for identity in identities])

    return write


def test_our_ranges_join_their_trials_and_the_others_get_a_name(
    recorded: Path, tmp_path: Path, url: str, enlist: Callable[..., None]
) -> None:
    enlist(ONE)
    report = recorded / "crash.ncu-rep"
    assert list_identities([report]) == [ONE, CRASH]
    with Store.open(url) as store:
        setting = ImportSetting(tmp_path / "artifacts", {ONE: "scale/v1"}, "by hand")
        result = import_report(report, setting, store)
        assert (result.joined, result.foreign, result.name, result.cache_mode) == ((ONE,), 1, "by hand", "cold")
        rows = store.query("SELECT identity, name, metric, value FROM counters WHERE metric = 'launch__grid_dim_z'")
        assert rows.values.tolist() == [[ONE, "scale/v1 · n=2^10 · block=256", "launch__grid_dim_z", 9.0]]
        foreign = store.query("SELECT name FROM profile WHERE trial_id IS NULL")
        assert foreign.name.tolist() == ["by hand"]
    (kept,) = (tmp_path / "artifacts").iterdir()
    assert kept.read_bytes() == report.read_bytes()


def test_the_same_report_is_kept_once(recorded: Path, tmp_path: Path, memory_store) -> None:
    setting = ImportSetting(tmp_path, {})
    for _ in range(2):
        import_report(recorded / "study_alone.ncu-rep", setting, memory_store)
    assert len(list(tmp_path.iterdir())) == 1
    assert memory_store.profiles[0].name == "study_alone"


def test_cold_and_hot_come_from_the_report_unless_said(recorded: Path, tmp_path: Path, memory_store) -> None:
    import_report(recorded / "memory_hot.ncu-rep", ImportSetting(tmp_path, {}), memory_store)
    import_report(recorded / "memory_cold.ncu-rep", ImportSetting(tmp_path, {}), memory_store)
    import_report(recorded / "memory_cold.ncu-rep", ImportSetting(tmp_path, {}, cache_mode="hot"), memory_store)
    assert [profile.conditions.cache_mode for profile in memory_store.profiles] == ["hot", "cold", "hot"]


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
    assert ncu_import.main([*files, "--name", "vendor", "--store", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{files[0]}: 1 trial joined (cold)",
        f"{files[1]}: 2 foreign launches under the name 'vendor' (cold)",
    ]


def test_one_bad_report_and_nothing_is_stored(recorded: Path, tmp_path: Path, url: str, monkeypatch) -> None:
    (tmp_path / "cuprof.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    files = [str(recorded / f"{name}.ncu-rep") for name in ("study_alone", "truncated")]
    with pytest.raises(ProfilerError, match="cut short"):
        ncu_import.main([*files, "--store", url])
    assert not (tmp_path / "db").exists()
