"""A study whose trials have counters by instruction: the recorded report of five reductions, with invented times."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from study_data import Made, fill

from cuprof.core.project import bundled
from cuprof.core.records import Conditions, LaunchRecord, Profile, State
from cuprof.families.fingerprint import source_text
from cuprof.families.origin import load_family
from cuprof.ncu.launches import roll_up
from cuprof.ncu.report_file import read_report
from cuprof.results.read import read_results
from cuprof.store.store import Store

REPORT = Path(__file__).parents[1] / "data" / "ncu" / "recorded" / "source_counters.ncu-rep"
TIMES = {"interleaved_divergent": 40.0, "sequential": 38.0, "last_warp": 21.0, "vector4": 9.0, "single_pass": 8.0}


@cache
def read_launches() -> dict[str, tuple[LaunchRecord, ...]]:
    """Return the launches of each variant in the recorded report."""
    return {launches[0].kernel: tuple(launches) for launches in read_report(REPORT).values()}


def fill_source_study(store: Store, *, without: str = "", same: tuple[str, ...] = ()) -> int:
    """Write a sweep of the five variants with their profiles, but one, and return its number."""
    family, problem = load_family(bundled("kernels") / "reduction"), {"n": 2**22, "dtype": "float32"}
    texts = {name: source_text(family, family.variants[name]) for name in TIMES}
    codes = dict.fromkeys(same, f"{'a' * 40}-{'b' * 23}")
    made = [Made(name, time, problem, source=texts[name], code=codes.get(name, "")) for name, time in TIMES.items()]
    sweep = fill(store, made, experiment="reduction", baseline="interleaved_divergent")
    with store.snapshot() as connection:
        rows = read_results(connection, [sweep])
    for trial in rows[rows["variant"] != without].itertuples():
        launches = read_launches()[trial.variant]
        rolled = roll_up(launches)
        names = tuple(value.metric for value in rolled)
        conditions = Conditions("cold", "none", "kernel")
        store.record_profile(
            sweep,
            Profile(
                trial.identity, trial.variant, State.OK, conditions, metrics=names, launches=launches, rolled=rolled
            ),
        )
    return sweep
