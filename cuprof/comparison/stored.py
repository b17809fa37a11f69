"""Entries of stored sweeps."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import finalize

from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.pool import Pool

from cuprof.backends.registry import is_host
from cuprof.comparison.entries import Entry
from cuprof.core.records import Measure, State
from cuprof.results.devices import list_devices
from cuprof.results.measured import MeasuredRow, MeasuredTiming, iter_measured, measured_of
from cuprof.results.references import list_references
from cuprof.results.samples import SampleArrays, iter_samples
from cuprof.results.sweeps import list_sources, read_configurations
from cuprof.results.trials import TrialRow
from cuprof.statistics.series import Series
from cuprof.store.connection import READING, checking, explained, make_engine
from cuprof.worker.method import relevant_settings

FOLLOW_UP = "follow-up"
"""The purpose of a sweep that timed two variants once more; for nothing else is it the newest of its experiment."""
NONE: Mapping[Measure, Series] = {}
Methods = tuple[Mapping[Measure, Mapping[str, Any]], Mapping[Measure, str]]
"""Measure → its settings and its method's hash: equal for most trials of a sweep, which share them."""


def read_entries(
    connection: Connection,
    sweep_ids: Sequence[int],
    variants: Collection[str] = (),
    rows: Sequence[TrialRow] | None = None,
) -> list[Entry]:
    """Return the trials of some sweeps; of a trial in several of them, the last one's.

    Their samples are read when they are asked for; `read_samples` reads those of many at once.

    Args:
        sweep_ids: the later ones win.
        variants: only these, all when empty.
        rows: what `list_trials` returns of them, where they have been read already.
    """
    devices = {device.id: device for device in list_devices(connection)}
    measured: Iterable[MeasuredRow]
    if rows is None:
        measured_in, measured = list_sources(connection, sweep_ids), iter_measured(connection, sweep_ids, variants)
    else:
        measured_in, measured = sorted({row.run.sweep_id for row in rows if row.run}), map(measured_of, rows)
    configurations = read_configurations(connection, measured_in)
    shelf = Shelf(connection.engine)
    references: dict[tuple[int, str], tuple[str, dict[Measure, Series]]] = {}
    for each in list_references(connection, measured_in):
        identity, series = references.setdefault((each.sweep_id, each.job), (each.identity, {}))
        if each.identity == identity:  # the first of those that a job has, as a search's jobs have several
            series[each.measure] = StoredSeries(shelf, each.timing_id, each.median_ns)

    @cache
    def methods(sweep_id: int, timed: tuple[tuple[Measure, str, str], ...]) -> Methods:
        measuring = configurations.get(sweep_id, {}).get("measure") or {}
        return (
            {measure: {**relevant_settings(measure, measuring), "version": version} for measure, version, _ in timed},
            {measure: method for measure, _, method in timed},
        )

    @cache
    def where(device_id: int | None) -> tuple[str, str, bool]:
        """Return name, identity and whether it is the host's processor."""
        device = devices.get(device_id or 0)
        return (device.facts.name, device.comparable, is_host(device.facts)) if device else ("", "", is_host(None))

    entries: dict[tuple[Any, ...], Entry] = {}
    with checking(connection.engine.url):
        for row in measured:
            timings = {timing.measure: timing for timing in row.timings if row.state is State.OK and _is_told(timing)}
            settings, hashes = methods(
                row.run_sweep_id, tuple([(each.measure, each.version, each.method) for each in timings.values()])
            )
            device, device_identity, on_host = where(row.device_id)
            reference, of_job = references.get((row.run_sweep_id, row.job), _NO_REFERENCE) if row.job else _NO_REFERENCE
            key = (row.family, row.variant, row.backend, row.problem, row.tunables, device)
            entries.pop(key, None)
            entries[key] = Entry(
                family=row.family,
                variant=row.variant,
                problem=row.problem,
                tunables=row.tunables,
                backend=row.backend,
                device=device,
                device_identity=device_identity,
                on_host=on_host,
                several_launches=Measure.COLD in timings and timings[Measure.COLD].batch > 1,
                identity=row.identity,
                state=row.state,
                message=row.message,
                is_expected_wrong=row.is_expected_wrong,
                run=row.run,
                settings=settings,
                methods=hashes,
                series={measure: _series(timing, shelf) for measure, timing in timings.items()},
                job=row.job,
                reference=reference,
                references=of_job,
            )
    return list(entries.values())


def read_samples(series: Iterable[Series]) -> None:
    """Read what is not read yet of the samples of many series, in few queries."""
    wanted: dict[Shelf, list[StoredSeries]] = defaultdict(list)
    for each in series:
        if isinstance(each, StoredSeries):
            wanted[each.shelf].append(each)
    for shelf, of_shelf in wanted.items():
        shelf.read(of_shelf)


def forget_samples(series: Iterable[Series]) -> None:
    """Forget the samples of stored series, which are read again when they are asked for again."""
    for each in series:
        if isinstance(each, StoredSeries):
            each.forget()


class Shelf:
    """The samples of stored timings; those of a timing never change."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._process = engine, os.getpid()
        self._elsewhere: Pool | None = None
        finalize(self, engine.dispose)

    def __reduce__(self) -> tuple[Callable[[URL], Shelf], tuple[URL]]:
        return _open_shelf, (self._engine.url,)

    def read(self, series: Iterable[StoredSeries]) -> None:
        """Read the samples of those series that have none."""
        missing = [each for each in series if not each.is_read]
        if not missing:
            return
        if self._process != os.getpid():  # what is connected is so for another process: kept, lest it be closed here
            self._process, self._elsewhere = os.getpid(), self._engine.pool
            self._engine.dispose(close=False)
        with explained(self._engine.url), self._engine.connect() as connection:
            reading = connection.execution_options(**{READING: True})
            found = dict(iter_samples(reading, [each.timing_id for each in missing]))
        with checking(self._engine.url):
            for each in missing:
                each.keep(found[each.timing_id])


class StoredSeries(Series):
    """The samples of a stored timing that have a logarithm; they are read when they are first asked for.

    Args:
        median_ns: as it is stored; 0 where it is of samples without a logarithm too.
        count: about how many samples; 0 where only reading them tells.
    """

    # Without a dictionary of its own, unless its quartiles are asked for: there may be some hundred thousand.
    __slots__ = ("count", "durations", "is_read", "rounds", "shelf", "stored_ns", "tick_ns", "timing_id", "together")

    def __init__(
        self, shelf: Shelf, timing_id: int, median_ns: float, together: str = "", tick_ns: float = 0.0, count: int = 0
    ) -> None:
        _set(self, "shelf", shelf)
        _set(self, "timing_id", timing_id)
        _set(self, "stored_ns", median_ns)
        _set(self, "together", together)
        _set(self, "tick_ns", tick_ns)
        _set(self, "count", count)
        _set(self, "is_read", False)

    if TYPE_CHECKING:
        shelf: Shelf
        timing_id: int
        stored_ns: float
        count: int
        is_read: bool

    def __reduce__(self) -> tuple[type[StoredSeries], tuple[Any, ...]]:
        return StoredSeries, (self.shelf, self.timing_id, self.stored_ns, self.together, self.tick_ns, self.count)

    def __getattr__(self, name: str) -> Any:
        if name not in ("durations", "rounds"):
            raise AttributeError(name)
        self.shelf.read([self])
        return getattr(self, name)

    def keep(self, samples: SampleArrays) -> None:
        """Take its samples."""
        rounds, durations = samples
        if not durations[durations.argmin()] > 0:
            rounds, durations = rounds[durations > 0], durations[durations > 0]
        _set(self, "durations", durations)
        _set(self, "rounds", rounds)
        _set(self, "is_read", True)

    def forget(self) -> None:
        """Forget the samples."""
        if self.is_read:
            _set(self, "is_read", False)
            object.__delattr__(self, "durations")
            object.__delattr__(self, "rounds")

    @property
    def size(self) -> int:
        """Return about how many samples there are."""
        return self.count or super().size

    @property
    def median_ns(self) -> float:
        """Return the median of the samples."""
        return self.stored_ns or super().median_ns


def _open_shelf(url: URL) -> Shelf:
    return Shelf(make_engine(url, read_only=True))


_NO_REFERENCE = ("", NONE)
_set = object.__setattr__


def _is_told(timing: MeasuredTiming) -> bool:
    """Return whether any of its samples has a logarithm."""
    return timing.sample_count > 0 and timing.max_ns is not None and timing.max_ns > 0


def _series(timing: MeasuredTiming, shelf: Shelf) -> Series:
    median_ns = timing.median_ns if timing.min_ns is not None and timing.min_ns > 0 else None
    return StoredSeries(shelf, timing.id, median_ns or 0.0, timing.rotation, timing.tick_ns, timing.sample_count)
