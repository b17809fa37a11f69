"""Sweeps of the family `tricks`: honest variants by themselves, then each trick beside two of them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.process import run
from benchmarks.space import copy_project
from benchmarks.trick_records import (
    BASELINES,
    FALSE_TIME,
    HONEST,
    IN_FULL,
    ISOLATED,
    NEIGHBOUR_BAND,
    OK,
    PROBES,
    RECORDS,
    STALE,
    TRUE_SHARE,
    Level,
    Shown,
    Trick,
)
from cuprof.core.errors import CuprofError

SETTINGS = ("report=none", "measure=quick", "measure.modes=[cold]", "limits.build_s=60", "limits.check_s=10")
ONE_EACH = ("measure.max_seconds=30", "measure.patience_seconds=30", "measure.target=1e-5")
"""Settings under which sampling ends by its number alone, so that a clock that stands still ends nothing early."""
JUDGED = ("measure=quick", "measure.modes=[cold]", "limits.build_s=60", "limits.check_s=10")
CANDIDATE = """
from .problem import family as known
trick = known.variant("{0}")
family.{1}("judged", requires=trick.requires)(trick.make)
"""
"""A candidate for `cuprof judge`: one variant of the family under another name."""
QUERY = """
SELECT v.name AS variant, r.state, r.message,
       (SELECT g.median_ns FROM timing AS g WHERE g.run_id = r.id AND g.measure = 'cold') AS median_ns
FROM run AS r JOIN trial AS t ON t.id = r.trial_id JOIN variant AS v ON v.id = t.variant_id
ORDER BY r.state <> 'ok', median_ns DESC
"""


NEVER_RAN = Shown("planned", message="never ran")


class SweepFailedError(CuprofError):
    """Report that a sweep left no rows."""


@dataclass(frozen=True)
class Bench:
    """Where and how the family is swept.

    Args:
        backend: whose variants.
        n: how many numbers, unless a trick names its own.
        samples: timed executions of each variant, unless a trick needs more.
        settings: further settings of every sweep.
    """

    backend: str
    n: int
    samples: int = 20
    settings: tuple[str, ...] = ()

    def sweep(
        self, variants: Sequence[str], n: int | None = None, samples: int | None = None, *, isolate: bool = False
    ) -> dict[str, Shown]:
        """Sweep variants of a new project, in one process or in one each; return what is shown of each.

        Raises:
            SweepFailedError: it left no row of any of them; the message is the end of what it printed.
        """
        count = samples or self.samples
        with tempfile.TemporaryDirectory(prefix="cuprof-tricks-") as folder:
            project = copy_project(Path(folder) / "project")
            command = [sys.executable, "-m", "cuprof", "sweep", "family=tricks", f"variants=[{','.join(variants)}]"]
            command += [f"baseline={BASELINES[self.backend]}", f"problem.n={n or self.n}", *SETTINGS, *ONE_EACH]
            command += [f"measure.min_samples={count}", f"measure.max_samples={count}", *self.settings]
            command += ["limits.isolate=true"] if isolate else []
            ended = run(command, Path(folder), folder=project, limit_s=300, accept=(0, 1))
            shown = read_shown(project / "db" / "cuprof.sqlite")
        if not shown:
            raise SweepFailedError(f"the sweep of {', '.join(variants)} left no rows: {ended.fault or ended.printed}")
        return shown

    def judge_apart(self, trick: Trick) -> Judgement:
        """Let `cuprof judge` rule on a trick against the honest baseline, each on the far side of the border.

        A trick that finds nothing to change there is refused.
        """
        with tempfile.TemporaryDirectory(prefix="cuprof-tricks-") as folder:
            project, kept = copy_project(Path(folder) / "project"), Path(folder) / "kept.sqlite"
            candidate = Path(folder) / "trick.py"
            candidate.write_text(CANDIDATE.format(trick.variant, "cpu" if self.backend == "cpu" else "library"))
            command = [sys.executable, "-m", "cuprof", "judge", "tricks", str(candidate), "--rounds", "1", "--as-root"]
            command += ["--baseline", BASELINES[self.backend], "--keep", str(kept), f"problem.n={trick.n or self.n}"]
            command += [*JUDGED, *self.settings]
            ended = run(command, Path(folder), folder=project, limit_s=300, accept=(0, 1, 2, 3))
            shown = read_shown(kept)
        honest_ns = shown.get(BASELINES[self.backend], NEVER_RAN).median_ns or 0.0
        found = shown.get("judged", Shown(NEVER_RAN.state, message=f"{NEVER_RAN.message}: {ended.printed[-200:]}"))
        found = replace(found, message=found.message.replace(STALE, "nothing to change"))
        return Judgement(trick, found, TRUE_SHARE[self.backend], honest_ns)

    @property
    def company(self) -> tuple[str, ...]:
        """Return the honest variants that every trick is swept beside: one before it, one that probes after it."""
        return tuple(filter(None, (BASELINES[self.backend], PROBES.get(self.backend))))

    def sweep_honest(self, n: int | None = None) -> dict[str, Shown]:
        """Return what is shown of all honest variants, swept together."""
        return self.sweep(HONEST[self.backend], n)

    def judge(self, tricks: Sequence[Trick], alone: Mapping[str, Shown]) -> list[Judgement]:
        """Sweep tricks beside honest variants in one process, and tell what came of all.

        Args:
            tricks: of one problem; several only where all of them are harmless to the others.
            alone: what is shown of the honest variants without them, at their problem.
        """
        if tricks[0].level is Level.ADVERSARIES:
            return [self.judge_apart(trick) for trick in tricks]
        baseline, *probes = self.company
        samples = max((trick.samples or self.samples for trick in tricks), default=self.samples)
        names = [trick.variant for trick in tricks]
        isolate = tricks[0].caught_by in (ISOLATED, RECORDS)
        shown = self.sweep((baseline, *names, *probes), tricks[0].n, samples, isolate=isolate)
        true_ns = {name: alone[name].median_ns or 0.0 for name in self.company}
        beside = {name: shown.get(name, NEVER_RAN) for name in self.company}
        unsound = list_unsound(beside, true_ns, NEIGHBOUR_BAND[self.backend])
        # Drift of the host hits those that are timed together alike, so a sound neighbour is the better measure.
        honest_ns = true_ns[baseline] if unsound else beside[baseline].median_ns or 0.0
        share = TRUE_SHARE[self.backend]
        return [Judgement(each, shown.get(each.variant, NEVER_RAN), share, honest_ns, unsound) for each in tricks]


@dataclass(frozen=True)
class Judgement:
    """What came of one trick.

    Args:
        true_share: the share of the honest time below which a time is false.
        honest_ns: what the same work takes honestly.
        unsound: what is told falsely of those beside it.
    """

    trick: Trick
    shown: Shown
    true_share: float
    honest_ns: float
    unsound: tuple[str, ...] = ()

    @property
    def ending(self) -> str:
        """Return the trial's state, or whether the time that is shown may be true."""
        if self.shown.state != OK:
            return self.shown.state
        return IN_FULL if (self.shown.median_ns or 0.0) >= self.true_share * self.honest_ns else FALSE_TIME

    @property
    def is_caught(self) -> bool:
        """Return whether the trick ended as it ought to and did nothing to those beside it.

        One that is out of date shows nothing, and is not caught.
        """
        if STALE in self.shown.message or self.unsound:
            return False
        if self.trick.level is Level.ADVERSARIES and self.ending == IN_FULL:
            return True  # what it wanted to change lies on the other side of the border
        return self.ending in self.trick.expected or (OK in self.trick.expected and self.shown.state == OK)


def list_unsound(
    beside: Mapping[str, Shown], true_ns: Mapping[str, float], band: tuple[float, float]
) -> tuple[str, ...]:
    """Return what is told falsely of the honest variants beside a trick.

    Args:
        true_ns: their times in a process of which no trick was part.
        band: the shares of those within which a time is right.
    """
    found = []
    for name, shown in beside.items():
        if shown.state != OK:
            found.append(f"{name} {shown.state}")
        elif shown.median_ns is None or not band[0] * true_ns[name] <= shown.median_ns <= band[1] * true_ns[name]:
            found.append(f"{name} {(shown.median_ns or 0.0) * 1e-3:.1f} µs of {true_ns[name] * 1e-3:.1f}")
    return tuple(found)


def read_shown(file: Path) -> dict[str, Shown]:
    """Return what a database holds of each variant; nothing where there is none.

    Of a variant's turns a failed one is shown, or else the fastest: what disturbs a turn only adds to its time, and a
    baseline that was disturbed is not the truth. The verdict itself takes all turns; it is undecided then.
    """
    from cuprof.results.queries import query

    if not file.is_file():
        return {}
    shown: dict[str, Shown] = {}
    for row in query(f"sqlite:///{file}", QUERY).to_dict("records"):
        median_ns = float(row["median_ns"]) if row["state"] == OK and row["median_ns"] is not None else None
        shown[str(row["variant"])] = Shown(str(row["state"]), median_ns, str(row["message"] or ""))
    return shown
