from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest
from made import GPU, HOST, OTHER_GPU, Made, fill

from cuprof.cli.main import main
from cuprof.comparison.pairs import VariantComparisons
from cuprof.comparison.sides import Side
from cuprof.comparison.trials import Stored, each, read_trials
from cuprof.core.records import Measure, State
from cuprof.results.read import read_results
from cuprof.statistics.contrasts import contrast
from cuprof.statistics.verdict import Verdict
from cuprof.store.store import Store

BOTH = (Measure.COLD, Measure.HOT)
STORED = Path(__file__).parents[1] / "data" / "db" / "0002.sqlite"


def pick(sweep: Side, variant: str, n: int = 2**20, block: int = 64, device: str = GPU.name) -> str:
    """Return the identity of one trial."""
    (found,) = (
        trial.identity
        for trial in each(sweep.trials.drop_duplicates("trial"))
        if (trial.variant, trial.problem["n"], trial.tunables.get("block"), trial.device) == (variant, n, block, device)
    )
    return found


def read_sweep(store: Store, sweep: int) -> Side:
    """Return one sweep as a side."""
    with store.snapshot() as connection:
        trials = read_trials(connection, read_results(connection, [sweep]))
        return Side(str(sweep), "sweep", "", trials, Stored(connection.engine))


@pytest.fixture(scope="module")
def filled(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with a sweep of three variants at two problems, with two tunables, on two devices."""
    path = shutil.copy(sqlite_template, tmp_path_factory.mktemp("pairs"))
    times = {"first": 50.0, "second": 50.4, "third": 56.0}
    made = [
        Made(name, time * (1.1 if block == 128 else 1.0) * n / 2**20, n=n, tune={"block": block}, measures=BOTH)
        for name, time in times.items()
        for n in (2**20, 2**21)
        for block in (64, 128)
    ]
    made += [Made(name, time * 3, device=OTHER_GPU) for name, time in times.items() if name != "third"]
    made += [
        Made("host", 400.0, device=HOST),
        Made("apart", 50.1, rotation="two"),
        Made("other", 100.0, version="7", method="m2"),
        Made("wrong", expected="wrong"),
    ]
    made.append(Made("broken", state=State.WRONG_RESULT))
    with Store.open(f"sqlite:///{path}") as store:
        fill(store, made)
        yield store


@pytest.fixture(scope="module")
def entries(filled: Store) -> Side:
    return read_sweep(filled, 1)


@pytest.fixture(scope="module")
def comparisons(entries: Side) -> VariantComparisons:
    return VariantComparisons(entries)


def compared_by_command(base: str, new: str, url: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Return the rows that `cuprof compare --json` prints; none where it refuses."""
    code = main(["compare", base, new, "--json", "--store", url])
    printed = capsys.readouterr().out
    assert (code == 2) is (not printed)
    return list(json.loads(printed)["rows"]) if printed else []


SHOWN = """
    first-second second-third third-first first-third second-apart apart-first
    first-host first-other first-wrong first-broken host-other other-wrong broken-wrong
"""


def test_every_pair_is_what_the_command_says_to_the_last_digit(
    filled: Store, entries: Side, capsys: pytest.CaptureFixture[str]
) -> None:
    comparisons = VariantComparisons(entries)
    pairs = permutations(entries.trials["identity"].unique(), 2)
    comparisons.foresee((*pair, Measure.COLD) for pair in pairs)  # all at once; `rows` makes others alone
    rows = 0
    for base, new in (pair.split("-") for pair in SHOWN.split()):
        found = comparisons.rows(base, new)
        printed = compared_by_command(f"invented/{base}", f"invented/{new}", filled.url, capsys)
        assert len(found) == len(printed)
        for row, said in zip(found.values(), printed, strict=True):
            numbers = (row.ratio, row.low, row.high, row.error_rate, row.base_median_ns, row.new_median_ns)
            names = ("ratio", "low", "high", "error_rate", "base_ns", "new_ns")
            assert numbers == tuple(said[name] for name in names)
            assert (row.verdict, row.measure) == (said["verdict"], said["measure"])
            assert row.base_identity == said["base"]["identity"]  # type: ignore[index]
        rows += len(found)
    assert rows == 19  # none of the host's


def test_a_database_of_the_first_revisions_gives_the_same_by_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{STORED}"
    with Store.open(url, create=False, read_only=True) as store, store.snapshot() as connection:
        trials = read_trials(connection, read_results(connection, [1]))
        sweep = Side("1", "sweep", "", trials, Stored(connection.engine))
    comparisons = VariantComparisons(sweep)
    (row,) = comparisons.rows("interleaved", "last_warp").values()
    (said,) = compared_by_command("reduction/interleaved", "reduction/last_warp", url, capsys)
    assert [said[name] for name in ("ratio", "low", "high")] == [
        row.ratio,
        row.low,
        row.high,
    ]


def test_two_trials_have_the_row_of_their_variants(entries: Side, comparisons: VariantComparisons) -> None:
    row = comparisons.find(pick(entries, "first"), pick(entries, "third"), Measure.HOT)
    assert row is not None
    assert row in comparisons.rows("first", "third").values()
    assert (row.verdict, row.measure, row.choices) == (Verdict.SLOWER, Measure.HOT, 4)
    assert comparisons.find(pick(entries, "first"), pick(entries, "third"), Measure.TOTAL) is None
    assert comparisons.find(pick(entries, "first"), pick(entries, "third", block=128), Measure.COLD) is None
    assert comparisons.find(pick(entries, "first"), pick(entries, "third", n=2**21), Measure.COLD) is None
    assert comparisons.find(pick(entries, "first"), pick(entries, "broken"), Measure.COLD) is None
    assert comparisons.find(pick(entries, "first"), "unknown", Measure.COLD) is None


def test_each_device_has_its_row_and_two_devices_have_one(entries: Side, comparisons: VariantComparisons) -> None:
    here, there = (pick(entries, "first", device=each.name) for each in (GPU, OTHER_GPU))
    for device in (GPU, OTHER_GPU):
        identities = (pick(entries, name, device=device.name) for name in ("first", "second"))
        row = comparisons.find(*identities, Measure.COLD)
        assert row is not None
        assert row.device == device.name
    across = comparisons.find(here, there, Measure.COLD)
    assert across is not None
    assert across in comparisons.rows("first", "first", (GPU.name, OTHER_GPU.name)).values()
    assert across.ratio == pytest.approx(3.0, rel=0.01)


def test_two_back_ends_have_a_ratio_and_no_verdict(entries: Side, comparisons: VariantComparisons) -> None:
    """Whatever their methods' versions, which are equal here: they count different things."""
    here, host = pick(entries, "first", device=GPU.name), pick(entries, "host", device=HOST.name)
    assert comparisons.find(here, host, Measure.COLD) is None
    assert comparisons.find_ratio(here, host, Measure.COLD) == pytest.approx(8.0, rel=0.01)


def test_a_ratio_is_the_rows_or_by_the_same_estimator(entries: Side, comparisons: VariantComparisons) -> None:
    first, third = pick(entries, "first"), pick(entries, "third")
    row = comparisons.find(first, third, Measure.COLD)
    assert row is not None
    assert comparisons.find_ratio(first, third, Measure.COLD) == row.ratio
    slow = pick(entries, "third", block=128)
    cold = entries.trials[entries.trials["measure"] == "cold"].set_index("identity", drop=False)
    base, new = (entries.source.read(cold.loc[[name]]) for name in (first, slow))
    assert comparisons.find_ratio(first, slow, Measure.COLD) == math.exp(contrast(base, new).log_ratio[0])
    assert comparisons.find_ratio(first, first, Measure.COLD) == 1.0
    other = pick(entries, "other")
    assert comparisons.find(first, other, Measure.COLD) is None
    assert comparisons.find_ratio(first, other, Measure.COLD) == pytest.approx(2.0, rel=0.01)
    assert comparisons.find_ratio(first, pick(entries, "broken"), Measure.COLD) is None
    assert comparisons.find_ratio(first, third, Measure.TOTAL) is None
    assert comparisons.find_ratio(first, "unknown", Measure.COLD) is None


def test_a_comparison_is_made_once(comparisons: VariantComparisons) -> None:
    pair = "first", "second"
    assert comparisons.rows(*pair) is comparisons.rows(*pair)
    assert all(math.isfinite(row.high) for row in comparisons.rows(*pair).values())


def test_variants_measured_on_two_cards_are_compared_by_the_reference_that_both_measured(store: Store) -> None:
    on_slower = {"job": "b", "rotation": "two", "device": GPU}
    made = [
        Made("first", 50.0, job="a"),
        Made("second", 56.0, job="a"),
        Made("third", 51.5, **on_slower),  # type: ignore[arg-type]
        Made("first", 51.5, again=True, **on_slower),  # type: ignore[arg-type]
    ]
    entries = read_sweep(store, fill(store, made))
    timed = entries.trials[entries.trials["reference"] != ""]
    assert set(timed["job"]) == {"a", "b"}
    pairs = VariantComparisons(entries)
    across = pairs.find(pick(entries, "first"), pick(entries, "third"), Measure.COLD)
    within = pairs.find(pick(entries, "first"), pick(entries, "second"), Measure.COLD)
    assert across is not None
    assert within is not None
    assert across.ratio == pytest.approx(1.0, abs=0.003)
    assert across.verdict == Verdict.SAME
    assert within.ratio == pytest.approx(1.12, abs=0.003)
    assert within.verdict == Verdict.SLOWER


def test_of_several_trials_that_jobs_share_each_is_its_own_reference_as_in_a_search(store: Store) -> None:
    made = [
        Made("first", 50.0, job="a"),
        Made("third", 51.5, job="b", rotation="two"),
        Made("first", 51.5, job="b", rotation="two", again=True),
        Made("fourth", 80.0, job="b", rotation="two"),
        Made("fourth", 80.0, job="c", rotation="three", again=True),
    ]
    entries = read_sweep(store, fill(store, made))
    names = dict(zip(entries.trials["identity"], entries.trials["variant"], strict=True))
    times = {"first": {"a": 50e3, "b": 51.5e3}, "fourth": {"b": 80e3, "c": 80e3}}
    assert set(entries.trials["job"]) == {"a", "b"}
    for trial in each(entries.trials):
        rows = entries.trials.head(1).assign(timing_id=trial.reference_id)
        median_ns = entries.source.read(rows).medians()[0]
        assert median_ns == pytest.approx(times[names[trial.reference]][trial.job], rel=0.01)
