"""What BASE and NEW may be, and how each is found."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from sqlalchemy.engine import Connection

from cuprof.comparison.trials import RANKED, Source, Stored, ending_of, is_timed, make_trials, number_keys, read_trials
from cuprof.core.errors import UnknownNameError, UsageError
from cuprof.core.point import Point
from cuprof.core.project import find_project
from cuprof.core.records import FAILED, State
from cuprof.core.text import hide_passwords, list_first
from cuprof.engine.provenance import run_git
from cuprof.interop import results as imported_results
from cuprof.results.read import read_results
from cuprof.results.sweeps import SweepRow, list_tried_sweeps, list_variant_names
from cuprof.statistics.samples import Samples
from cuprof.store.connection import parse_url, show
from cuprof.store.store import Store

FORMS = (
    "a side is a sweep (12, latest, latest~1), a variant (reduction/last_warp, or last_warp with "
    "experiment=reduction), a commit (git:abc123, git:HEAD~1), a database (runs.sqlite, runs.sqlite:3) or a file of "
    "nvbench's or Kernel Tuner's (out.json)"
)
MOST_SWEEPS = 3
FILE = ".json"
"""What the names of other tools' files end with."""
FOLLOW_UP = "follow-up"
"""The purpose of a sweep that timed two variants once more; for nothing else is it the newest of its experiment."""
_MAGIC = b"SQLite format 3\0"
"""What every SQLite file begins with: https://sqlite.org/fileformat.html."""
_SWEEP = re.compile(r"\d+|latest(~\d+)?")
_DATABASE = re.compile(r"(?P<file>.+\.(?:sqlite3?|db))(?::(?P<sweep>\d+|latest(?:~\d+)?))?")
_URL = re.compile(r"(?P<url>\w[\w+]*://.+?)(?:#(?P<sweep>\d+|latest(?:~\d+)?))?")


@dataclass(frozen=True, eq=False)
class Side:
    """What BASE or NEW stands for.

    Args:
        kind: "sweep", "variant", "commit", "database", or the tool whose file it is, as in "nvbench".
        description: for people: "sweep 12 (reduction, 2026-11-20 09:00)".
        trials: a row for each trial and measure; `cuprof.comparison.trials.COLUMNS` says what the columns hold.
        source: where the samples of the trials come from.
        url, sweeps: the database and the sweeps that the trials come from; empty for files of other tools.
        notes: what a reader must know before believing a comparison with this side.
    """

    text: str
    kind: str
    description: str
    trials: pd.DataFrame
    source: Source
    url: str = ""
    sweeps: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_foreign(self) -> bool:
        """Return whether another tool measured it."""
        return self.kind not in ("sweep", "variant", "commit", "database")

    @cached_property
    def once(self) -> pd.DataFrame:
        """Return one row for each trial that is meant to be right, by its number: the first of its rows."""
        first = self.trials.loc[self.trials["expected"] != "wrong", "trial"].drop_duplicates()
        return self.trials.loc[first.index].set_axis(first.to_numpy())

    @cached_property
    def fastest(self) -> pd.DataFrame:
        """Return the fastest trial at each problem and device as `once` does, else the first that failed there.

        Its column `choices` says how many it was chosen from.
        """
        trials, times = self.once, dict[int, float]()
        numbers, medians_ns, measures = (self.trials[name].to_numpy() for name in ("trial", "median_ns", "measure"))
        for measure in reversed(RANKED):
            timed = measures == measure.value
            times |= dict(zip(numbers[timed].tolist(), medians_ns[timed].tolist(), strict=True))
        (groups,) = number_keys(trials, by=("problem", "device"))
        is_right = (trials["measure"] != "").to_numpy(bool)
        kinds = np.where(is_right, 0, np.where(trials["state"].isin([*FAILED]), 1, 2))
        times_ns = np.array([times.get(trial, np.inf) for trial in trials["trial"]])
        order = np.lexsort((times_ns, kinds))
        _, first = np.unique(groups[order], return_index=True)
        choices = np.bincount(groups, is_right).astype(np.int64)
        return trials.iloc[order[first]].assign(choices=np.maximum(choices, 1))


def load_sides(base: str, new: str, url: str, experiment: str = "", sweep: int | None = None) -> tuple[Side, Side]:
    """Return both sides.

    Args:
        base, new: as typed; see `FORMS`.
        url: the database of sweeps, variants and commits that name none.
        experiment: narrows `latest` and plain variant names.
        sweep: where variants are taken from; None takes, at each problem, the newest sweep that ran both.

    Raises:
        UsageError: a side that is unknown or ambiguous, or two that cannot be compared.
        StoreError: a database that cannot be read.
    """
    finder = Finder(url, experiment, sweep)
    if finder.is_variant(base) != finder.is_variant(new):
        variant, other = (base, new) if finder.is_variant(base) else (new, base)
        raise UsageError(f"{variant!r} is a variant and is compared with another variant, not with {other!r}; {FORMS}")
    if finder.is_variant(base):
        return finder.variants(base, new)
    if sweep is not None:
        raise UsageError(f"--sweep {sweep} chooses the sweep of two variants, and {base!r} is not a variant; {FORMS}")
    return finder.find(base), finder.find(new)


@dataclass(frozen=True)
class Finder:
    """Find sides that are no file of another tool in one database."""

    url: str
    experiment: str = ""
    sweep: int | None = None

    @property
    def place(self) -> str:
        """Return the database for people."""
        return show(parse_url(self.url))

    def is_variant(self, text: str) -> bool:
        """Return whether the text can only be a variant."""
        if text.endswith(FILE) or _SWEEP.fullmatch(text) or _DATABASE.fullmatch(text) or _URL.fullmatch(text):
            return False
        return bool(text) and not text.startswith("git:") and not Path(text).exists()

    def find(self, text: str) -> Side:
        """Return a side that is no variant."""
        if text.endswith(FILE):
            if not Path(text).is_file():
                raise UsageError(f"there is no file {text}; {FORMS}")
            return read_side(Path(text), text)
        if match := _DATABASE.fullmatch(text):
            return self._database(text, f"sqlite:///{match['file']}", match["sweep"], match["file"])
        if match := _URL.fullmatch(text):
            return self._database(text, match["url"], match["sweep"], "")
        if text.startswith("git:"):
            return self._commit(text, text.removeprefix("git:"))
        if _SWEEP.fullmatch(text):
            return self._sweep(text)
        if text and Path(text).is_file():
            with Path(text).open("rb") as file:
                if file.read(len(_MAGIC)) == _MAGIC:
                    return self._database(text, f"sqlite:///{text}", None, text)
        raise UsageError(f"{text!r} is not a side of a comparison; {FORMS}")

    def variants(self, base: str, new: str) -> tuple[Side, Side]:
        """Return two variants: at each problem of the newest sweep that ran both, where there is one.

        One that failed there stands with its failure, so that the comparison can tell of it.
        """
        with Store.reading(self.url) as connection:
            sweeps = [sweep for sweep in list_tried_sweeps(connection) if self._fits(sweep)]
            if self.sweep is not None:
                sweeps = [self._pick(sweeps, str(self.sweep))]
            families = tuple(self._family(connection, text, sweeps) for text in (base, new))
            names = base.rpartition("/")[2], new.rpartition("/")[2]
            if families[0] != families[1]:
                raise UsageError(
                    f"{families[0]} and {families[1]} are two families, which compute different things; name variants "
                    "of one"
                )
            candidates = {sweep.id: sweep for sweep in reversed(sweeps) if sweep.family == families[0]}
            results = read_results(connection, list(candidates), names)
            ran = [self._ran(connection, families[0], name, results, list(candidates)) for name in names]
            source = Stored(connection.engine)
            sides = []
            for text, name, own_sweeps, others in zip((base, new), names, ran, reversed(ran), strict=True):
                chosen = {  # at every problem: the newest that ran the other one too, else its newest
                    problem: next((sweep for sweep in sweeps if sweep in others.get(problem, ())), sweeps[0])
                    for problem, sweeps in own_sweeps.items()
                }
                places = zip(results["variant"], results["problem"], results["sweep_id"], strict=True)
                own = [variant == name and chosen.get(problem) == sweep for variant, problem, sweep in places]
                used = tuple(sweep for sweep in candidates if sweep in chosen.values())
                trials = read_trials(connection, results[own])
                where = list_first([_describe(candidates[sweep]) for sweep in used], MOST_SWEEPS)
                label = f"{families[0]}/{name} in {where}"
                sides.append(Side(text, "variant", label, trials, source, self.url, used))
        trials = sides[0].trials
        failed = trials[trials["state"].isin([*FAILED])]
        if len(failed) and not (trials["measure"] != "").any():
            raise UsageError(f"nothing is compared with a BASE that is not right: {ending_of(failed.iloc[0])}")
        return sides[0], sides[1]

    def _ran(
        self, connection: Connection, family: str, name: str, results: pd.DataFrame, candidates: Sequence[int]
    ) -> dict[Point, list[int]]:
        """Return problem → which of the candidates timed the variant at it, or found it failing, the newest first."""
        own = results[(results["variant"] == name) & (results["run_id"] > 0)]
        if len(own) and own["expected"].iloc[own["sweep_id"].argmax()] == "wrong":
            raise UsageError(f"{family}/{name} is kept as known wrong and is never ranked; compare another variant")
        tried = own[is_timed(own) | own["state"].isin([*FAILED])]
        found: dict[Point, list[int]] = defaultdict(list)
        for problem, sweep in dict.fromkeys(zip(tried["problem"], tried["sweep_id"], strict=True)):
            found[problem].append(sweep)
        if found:
            return found
        stored = list_variant_names(connection, candidates)
        if name in stored:
            raise UsageError(f"{family}/{name} has no timing in {self.place}; run a sweep of it first")
        raise UnknownNameError("variant", name, stored, f"of family {family} in {self.place}")

    def _family(self, connection: Connection, text: str, sweeps: Sequence[SweepRow]) -> str:
        family, slash, _ = text.rpartition("/")
        known = sorted({sweep.family for sweep in sweeps})
        if slash:
            if family not in known:
                raise UsageError(f"no sweep of family {family!r} is stored (there are {_list(known)}); {FORMS}")
            return family
        if not self.experiment:
            raise UsageError(f"{text!r} is unknown; {_suggest(connection, text, sweeps) or FORMS}")
        if len(known) != 1:
            raise UsageError(f"experiment {self.experiment!r} has sweeps of {_list(known)}; write FAMILY/{text}")
        return known[0]

    def _sweep(self, text: str) -> Side:
        with Store.reading(self.url) as connection:
            sweep = self._pick(list_tried_sweeps(connection), text)
            return self._of_sweeps(connection, text, "sweep", _describe(sweep), [sweep])

    def _of_sweeps(
        self, connection: Connection, text: str, kind: str, description: str, sweeps: Sequence[SweepRow], *notes: str
    ) -> Side:
        """Return some sweeps as one side, with a note for each that is not finished."""
        ids = tuple(sweep.id for sweep in sweeps)
        notes += tuple(f"sweep {sweep.id} is not finished ({sweep.state})" for sweep in sweeps if not sweep.is_finished)
        trials, source = read_trials(connection, read_results(connection, ids)), Stored(connection.engine)
        return Side(text, kind, description, trials, source, self.url, ids, notes)

    def _pick(self, sweeps: Sequence[SweepRow], text: str) -> SweepRow:
        if text.isdigit():
            for sweep in sweeps:
                if sweep.id == int(text):
                    return sweep
            numbers = _list([str(sweep.id) for sweep in sweeps[-8:]])
            raise UsageError(f"there is no sweep {text} with timings in {self.place} (newest: {numbers}); {FORMS}")
        fitting = [sweep for sweep in sweeps if self._fits(sweep) and sweep.purpose != FOLLOW_UP]
        if not fitting:
            where = f" of experiment {self.experiment!r}" if self.experiment else ""
            raise UsageError(f"no sweep{where} with timings is stored in {self.place}; run a sweep first")
        newest = fitting[-1]
        like = [each for each in fitting if (each.experiment, each.family) == (newest.experiment, newest.family)]
        back = int(text.partition("~")[2] or 0)
        if back >= len(like):
            raise UsageError(
                f"{text!r} goes back {back} sweeps, but {self.place} holds {len(like)} of "
                f"{newest.experiment or newest.family}; {FORMS}"
            )
        return like[-1 - back]

    def _commit(self, text: str, revision: str) -> Side:
        with Store.reading(self.url) as connection:
            sweeps = [sweep for sweep in list_tried_sweeps(connection) if self._fits(sweep)]
            commits = {str(sweep.git.get("commit") or "") for sweep in sweeps} - {""}
            prefix = revision.lower()
            matching = sorted(commit for commit in commits if prefix and commit.startswith(prefix))
            asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
            resolved = "" if matching else run_git(find_project().root, *asked) or ""
            if resolved in commits:
                matching = [resolved]
            if len(matching) != 1:
                known = _list([commit[:10] for commit in sorted(commits)])
                what = "fits no stored sweep's commit"
                if matching:
                    what = f"fits {_list([each[:10] for each in matching])}"
                elif resolved:
                    what = f"is commit {resolved[:10]}, at which no stored sweep was measured"
                raise UsageError(f"{text!r} {what} (stored: {known}); {FORMS}")
            at_commit = [sweep for sweep in sweeps if sweep.git.get("commit") == matching[0]]
            chosen = [sweep for sweep in at_commit if sweep.purpose != FOLLOW_UP] or at_commit
            clean = [sweep for sweep in chosen if not sweep.git.get("dirty")]
            notes = () if clean else (f"{matching[0][:10]} was only measured with uncommitted changes",)
            used = clean or chosen
            ids = ", ".join(str(sweep.id) for sweep in used)
            description = f"commit {matching[0][:10]} (sweep{'s' if len(used) > 1 else ''} {ids})"
            return self._of_sweeps(connection, text, "commit", description, used, *notes)

    def _database(self, text: str, url: str, sweep: str | None, file: str) -> Side:
        if file and not Path(file).is_file():
            raise UsageError(f"there is no file {file}; {FORMS}")
        found = Finder(url, self.experiment)._sweep(sweep or "latest")
        where = Path(file).name if file else show(parse_url(url)).rpartition("/")[2]
        description = f"{found.description} of {where}"
        return replace(found, text=hide_passwords(text), kind="database", description=description)

    def _fits(self, sweep: SweepRow) -> bool:
        return not self.experiment or self.experiment in (sweep.experiment, sweep.family, sweep.name)


def _suggest(connection: Connection, text: str, sweeps: Sequence[SweepRow]) -> str:
    """Return a message's end that names the stored FAMILY/VARIANT near to a name alone; empty for none."""
    ids: dict[str, list[int]] = defaultdict(list)
    for sweep in sweeps:
        ids[sweep.family].append(sweep.id)
    stored = [(family, name) for family in ids for name in list_variant_names(connection, ids[family])]
    names = [name for _, name in stored]
    near = [text] if text in names else get_close_matches(text, names, 3)
    meant = " or ".join(f"{family}/{name}" for family, name in stored if name in near)
    return f"did you mean {meant}?" if meant else ""


def read_side(path: Path, text: str = "") -> Side:
    """Return a file of another tool's as one side; devices that share their name are marked so."""
    imported = imported_results.read_results(path)
    devices = Counter(name for name, _ in {(trial.device, trial.device_id) for trial in imported.trials})
    records = [
        {
            "family": trial.family,
            "problem": trial.problem,
            "tunables": trial.tunables,
            "backend": "cuda",
            "device": trial.device,
            "device_key": trial.device,
            "device_number": str(trial.device_id),
            "device_repeats": devices[trial.device] > 1,
            "state": trial.state.value,
            "message": trial.message,
            "tool": imported.tool,
            "series": {trial.measure: Samples.of([trial.durations_ns], standard_error=trial.relative_error)}
            if trial.state is State.OK
            else {},
        }
        for trial in imported.trials
    ]
    description = f"{imported.tool}'s {path.name}"
    return Side(text or str(path), imported.kind, description, *make_trials(records), notes=imported.notes)


def _describe(sweep: SweepRow) -> str:
    started = datetime.fromtimestamp(sweep.started_at or 0.0, UTC)
    return f"sweep {sweep.id} ({sweep.experiment or sweep.name}, {started:%Y-%m-%d %H:%M})"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
