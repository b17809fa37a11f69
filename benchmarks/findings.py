"""Record what a study measured in a small file, and write its findings from that file.

    python -m benchmarks.findings record COMMIT STUDY DATABASE…     databases → experiments/STUDY/measured.csv
    python -m benchmarks.findings write STUDY…                      measured.csv → experiments/STUDY/findings.md

Findings are written from `experiments/STUDY/findings.md.jinja`, in which figures are expressions over the recorded
data and sentences stand behind a `claim`, which fails where the data say otherwise. `tests/experiments` writes them
again and compares, so that neither can go stale.
"""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import yaml

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
COLUMNS = ("variant", "problem", "tunables", "measure", "kernel", "value", "low", "high", "unit")
COLD, TOTAL, STATE = "cold", "total", "state"

TIMINGS = """
SELECT variant, problem_json, tunables_json, measure, median_us, low_us, high_us, energy_j, mean_w
FROM sweep_timings WHERE sweep_id = ? AND state = 'ok' AND expected = 'right' ORDER BY ordinal, measure
"""
COUNTERS = """
SELECT variant, problem_json, tunables_json, metric, value, unit
FROM counters WHERE family = ? AND value IS NOT NULL ORDER BY variant, problem_json, tunables_json, metric
"""
KERNEL_COUNTERS = """
SELECT t.variant, t.problem_json, t.tunables_json, l.metric, l.kernel, l.value, l.unit
FROM launch_counters AS l JOIN trials AS t ON t.trial_id = l.trial_id
WHERE t.family = ? AND l.value IS NOT NULL AND l.profile_id IN (
    SELECT profile_id FROM launch_counters GROUP BY profile_id HAVING COUNT(DISTINCT kernel) = COUNT(DISTINCT launch_id)
    AND COUNT(DISTINCT kernel) > 1
)
ORDER BY t.variant, t.problem_json, t.tunables_json, l.metric, l.ordinal
"""
"""Of programs that launch several kernels, each of them once."""
STATES = """
SELECT variant, problem_json, tunables_json, state FROM sweep_trials
WHERE sweep_id = ? AND (state <> 'ok' OR expected = 'wrong') ORDER BY ordinal
"""
SWEEP = """
SELECT id, family, started_at FROM sweep WHERE experiment = ? ORDER BY purpose = 'timing' DESC, id DESC LIMIT 1
"""
DEVICES = """
SELECT d.backend, d.name, CAST(d.identity AS TEXT), CAST(d.details AS TEXT), c.read_bandwidth
FROM calibration AS c JOIN device AS d ON d.id = c.device_id WHERE c.sweep_id = ? ORDER BY d.backend
"""


@dataclass(frozen=True)
class Value:
    """One recorded number: a time in µs, mJ, W or a counter in its own unit; or the state of a trial, in `unit`."""

    variant: str
    problem: Mapping[str, Any]
    tunables: Mapping[str, Any]
    measure: str
    kernel: str
    value: float
    low: float | None
    high: float | None
    unit: str

    def agrees(self, where: Mapping[str, Any]) -> bool:
        """Return whether coordinates and tunables are as asked; a tunable that a variant lacks agrees with anything."""
        return all(
            self.problem[name] == value if name in self.problem else self.tunables.get(name, value) == value
            for name, value in where.items()
        )


@dataclass(frozen=True)
class Recording:
    """What was recorded of one study's sweep.

    Args:
        about: card, driver, date and commit, and the bandwidths that shares are of.
    """

    study: str
    about: Mapping[str, str]
    values: Sequence[Value] = field(repr=False)

    @classmethod
    def load(cls, study: str) -> Recording:
        """Read a study's measured.csv."""
        lines = (EXPERIMENTS / study / "measured.csv").read_text(encoding="utf-8").splitlines()
        about = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        return cls(study, about, [_read_value(row) for row in rows])

    @cached_property
    def problems(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the coordinates of the study's named problems."""
        settings = yaml.safe_load((EXPERIMENTS / self.study / "study.yaml").read_text(encoding="utf-8"))
        return settings.get("problems") or {}

    def find(self, variant: str, measure: str = COLD, kernel: str = "", /, **where: Any) -> Value:
        """Return the smallest value of one measure of a variant.

        Args:
            where: coordinates and tunables; `problem="E1"` stands for the coordinates of a named problem.

        Raises:
            LookupError: nothing of the kind was recorded.
        """
        named = self.problems[where.pop("problem")] if "problem" in where else {}
        wanted = {**named, **where}
        found = [
            each
            for each in self.values
            if (each.variant, each.measure, each.kernel) == (variant, measure, kernel) and each.agrees(wanted)
        ]
        if not found:
            raise LookupError(f"{self.study}: nothing recorded of {variant}, {measure} {kernel}, {wanted}")
        return min(found, key=lambda each: each.value)

    def us(self, variant: str, /, **where: Any) -> float:
        """Return the shortest cold median of a variant, µs."""
        return self.find(variant, **where).value

    def has(self, variant: str, /, **where: Any) -> bool:
        """Return whether a cold time was recorded."""
        try:
            return self.us(variant, **where) > 0
        except LookupError:
            return False

    def add_up(self, variant: str, times: Mapping[str, int], problems: Sequence[str]) -> float:
        """Return Σ times × shortest cold median over named problems, once where `times` names none, µs."""
        return sum(times.get(problem, 1) * self.us(variant, problem=problem) for problem in problems)

    def best(self, variant: str, /, **where: Any) -> Mapping[str, Any]:
        """Return the tunables of the shortest cold median."""
        return self.find(variant, **where).tunables

    def total(self, variant: str, /, **where: Any) -> float:
        """Return the shortest median with transfers, µs; a variant on the host has none, and its time is its total."""
        try:
            return self.find(variant, TOTAL, **where).value
        except LookupError:
            return self.us(variant, **where)

    def count(self, variant: str, metric: str, kernel: str = "", /, **where: Any) -> float:
        """Return a counter, of all launches or of one kernel."""
        return self.find(variant, metric, kernel, **where).value

    def count_wrong(self, variant: str) -> int:
        """Return how many trials of a variant gave a wrong result."""
        return sum((each.variant, each.measure, each.unit) == (variant, STATE, "wrong_result") for each in self.values)


def _read_value(row: Mapping[str, str]) -> Value:
    number = {name: float(row[name]) if row[name] else None for name in ("value", "low", "high")}
    return Value(
        row["variant"],
        _read_point(row["problem"]),
        _read_point(row["tunables"]),
        row["measure"],
        row["kernel"],
        number["value"] or 0.0,
        number["low"],
        number["high"],
        row["unit"],
    )


def _read_point(text: str) -> dict[str, Any]:
    pairs = (pair.split("=", 1) for pair in text.split())
    return {name: int(value) if value.lstrip("-").isdigit() else value for name, value in pairs}


def _write_point(text: str) -> str:
    return " ".join(f"{name}={value}" for name, value in json.loads(text or "{}").items())


def record(databases: Sequence[str], commit: str, study: str) -> None:
    """Write the newest timing sweep of a study, where there is one, and its family's counters into its measured.csv.

    Args:
        databases: files, the whole study first; the values of later ones, of parts of it, replace those before.
    """
    about: dict[str, str] = {}
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for database in databases:
        with closing(sqlite3.connect(database)) as store:
            if sweep := store.execute(SWEEP, [study]).fetchone():
                number, family, started = sweep
                about = {**dict(_describe(store, number, started, commit)), **about}
                rows.update((row[:5], row) for row in _list_rows(store, number, family))
    with (EXPERIMENTS / study / "measured.csv").open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"# {name}: {text}\n" for name, text in about.items())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows.values())


def _describe(store: sqlite3.Connection, sweep: int, started: str, commit: str) -> Iterator[tuple[str, str]]:
    yield "date", str(started)[:10]
    yield "commit", commit
    for backend, name, identity, details, bandwidth in store.execute(DEVICES, [sweep]):
        facts = {**json.loads(identity), **json.loads(details)}
        yield backend, name
        for fact in ("driver", "theoretical_bandwidth_gbs", "power_limit_w", "threads"):
            if facts.get(fact) is not None:
                yield f"{backend} {fact}", f"{facts[fact]:.6g}" if isinstance(facts[fact], float) else str(facts[fact])
        if bandwidth:
            yield f"{backend} read_bandwidth_gbs", f"{bandwidth / 1e9:.6g}"


def _list_rows(store: sqlite3.Connection, sweep: int, family: str) -> Iterator[tuple[Any, ...]]:
    for variant, problem, tunables, measure, median, low, high, energy, power in store.execute(TIMINGS, [sweep]):
        where = (variant, _write_point(problem), _write_point(tunables))
        yield (*where, measure, "", _short(median), _short(low), _short(high), "us")
        if energy is not None:
            yield (*where, "energy", "", _short(energy * 1e3), "", "", "mJ")
            yield (*where, "power", "", _short(power), "", "", "W")
    for variant, problem, tunables, state in store.execute(STATES, [sweep]):
        yield (variant, _write_point(problem), _write_point(tunables), STATE, "", "", "", "", state)
    for variant, problem, tunables, metric, value, unit in store.execute(COUNTERS, [family]):
        yield (variant, _write_point(problem), _write_point(tunables), metric, "", _short(value), "", "", unit)
    for variant, problem, tunables, metric, kernel, value, unit in store.execute(KERNEL_COUNTERS, [family]):
        yield (variant, _write_point(problem), _write_point(tunables), metric, kernel, _short(value), "", "", unit)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def format_time(us: float) -> str:
    """Return a time in the unit that suits it: two decimals below ten, one from there on."""
    size, unit = next((each for each in ((1e6, "s"), (1e3, "ms")) if us >= each[0]), (1.0, "µs"))
    value = us / size
    return f"{value:.{2 if value < 10 else 1}f} {unit}"


def format_ratio(ratio: float) -> str:
    """Return a ratio with two decimals, one from ten on, none from a hundred on."""
    return f"{ratio:,.{2 if ratio < 10 else 1 if ratio < 100 else 0}f}"


def format_bandwidth(rate: float) -> str:
    """Return bytes a second in GB/s, from 1 TB/s on in TB/s."""
    return f"{rate / 1e12:.2f} TB/s" if rate >= 1e12 else f"{rate / 1e9:.0f} GB/s"


def format_percent(share: float) -> str:
    """Return a share as a percentage: whole from ten on, else one decimal."""
    percent = 100 * share
    return f"{percent:.{0 if percent >= 9.95 else 1}f} %"


def claim(holds: bool) -> str:
    """Return nothing where a sentence is true of the recorded data.

    Raises:
        ValueError: it is not.
    """
    if not holds:
        raise ValueError("the recorded data say otherwise")
    return ""


def find_typed_figures(template: str) -> list[str]:
    """Return times, energies, powers and bandwidths that stand in a template as they are, outside its expressions."""
    plain = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", "", template, flags=re.DOTALL)
    return re.findall(r"\d[\d.,]* (?:ns|µs|ms|s|mJ|J|W|GB/s|TB/s)\b", plain)


def read_published(study: str, table: str) -> list[dict[str, str]]:
    """Return the rows of a published table."""
    with (EXPERIMENTS / study / "published" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def render(study: str) -> str:
    """Return the findings of a study, written from its template and its recorded data."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
    )
    run = Recording.load(study)
    environment.globals.update(
        run=run,
        load=Recording.load,
        published=lambda table: read_published(study, table),
        claim=claim,
        t=format_time,
        x=format_ratio,
        p=format_percent,
        bandwidth=format_bandwidth,
        mj=lambda value: f"{value:.1f} mJ",
        watts=lambda value: f"{value:.0f} W",
        card=f"one {run.about['cuda']} (driver {run.about['cuda driver']})",
        host=f"{run.about['cpu']}, {run.about['cpu threads']} threads",
        measured_on=f"Measured on {run.about['date']} with cuprof at {run.about['commit']}.",
    )
    return environment.from_string((EXPERIMENTS / study / "findings.md.jinja").read_text(encoding="utf-8")).render()


def main(arguments: Sequence[str]) -> None:
    """Record or write, as the first word says."""
    if arguments[:1] == ["record"] and len(arguments) > 3:
        record(arguments[3:], arguments[1], arguments[2])
    elif arguments[:1] == ["write"]:
        for study in arguments[1:]:
            (EXPERIMENTS / study / "findings.md").write_text(render(study), encoding="utf-8")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
