"""Tables with a row a variant: a study's steps beside published figures, any problem's, a search's fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cuprof.core.point import Point
from cuprof.core.records import NOT_RUN, State
from cuprof.core.text import level_text
from cuprof.report.cells import APART, doubt_of, keep, ratio_notes
from cuprof.report.experiment import TableSpec
from cuprof.report.failures import words_of
from cuprof.report.published import PublishedValue
from cuprof.report.study import Study
from cuprof.report.tables import MISSING, Cell, Column, Row, Table
from cuprof.report.trials import StudyTrial, best_of_tunables, by_kind, by_sure_time, grouped
from cuprof.report.units import QUANTITIES, Scale, choose_scale, format_ratio, format_value, point_label, shorten
from cuprof.statistics import Verdict

Published = Sequence[PublishedValue]
HEADINGS = {
    "time": "Time",
    "bandwidth": "Bandwidth",
    "share": "Of peak",
    "theoretical_share": "Of data sheet",
    "step_speedup": "Step",
    "cumulative_speedup": "Speedup",
    "total": "Total",
}
PLAIN = ("time", "bandwidth", "share", "theoretical_share", "total")
"""Those of the columns that are quantities of one trial."""
ABOVE_PEAK = "Above 100 % of the peak: the data fit into a cache, which is faster than the memory that was measured."
CACHES = {"cold": "inputs not in the L2 cache", "hot": "caches as the previous repetition left them"}
ENOUGH = 40
"""From this many configurations at the reference problem on, the fastest are listed."""
TOP = 10


@dataclass(frozen=True)
class Step:
    """One row to be: a contender's best trial, or its first where none is right.

    Args:
        values: column → value in base units; empty unless the trial is right.
        notes: column of a ratio → what stands below it.
    """

    trial: StudyTrial
    values: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def steps_table(study: Study, spec: TableSpec) -> Table:
    """Return the table of a study's steps at the problem that `where` names, else at the reference problem."""
    trials = keep(study.trials, spec.where)
    if not any(fact.startswith("problem") for fact in spec.where):
        trials = [trial for trial in trials if trial.problem == study.reference]
    problem = trials[-1].problem if trials else study.reference
    return variants_table(study, [trial for trial in trials if trial.problem == problem], problem, spec)


def variants_table(
    study: Study, trials: Sequence[StudyTrial], problem: Point, spec: TableSpec, *, notes: bool = True
) -> Table:
    """Return time, bandwidth, shares of the peaks, step and cumulative speedup and total time of every variant.

    Args:
        trials: those to show, all at the problem.
        notes: whether to explain the columns below the table.
    """
    steps = _steps(study, trials)
    published, other = _published(study, spec, problem)
    filled = {name for step in steps for name in step.values}
    always = {"time", "bandwidth", "share", "cumulative_speedup", *(["step_speedup"] if study.experiment.steps else [])}
    measured = [name for name in HEADINGS if name in filled | always]
    shown = [name for name in HEADINGS if any(value.measure == name for value in published)]
    scales = {name: _scale(name, [step.values.get(name) for step in steps], published) for name in HEADINGS}
    devices = dict.fromkeys(value.device or "a device that is not named" for value in published)
    group = f"Published: {', '.join(devices)} (another machine{other})"
    columns = [Column(HEADINGS[name], scales[name].unit, "Measured here") for name in measured]
    columns += [Column(HEADINGS[name], scales[name].unit, group, published=True) for name in shown]
    fastest = min((step.values["time"] for step in steps if step.values), default=None)
    rows = []
    for step in steps:
        is_fastest, is_base = step.values.get("time", 0) == fastest, step.trial.variant == study.baseline
        cells = (*_measured_cells(step, measured, scales), *_published_cells(step.trial, shown, scales, published))
        mark = "fastest" if is_fastest else "baseline" if is_base else ""
        rows.append(Row(step.trial.contender, _below(study, step.trial), cells, mark))
    title = f"{spec.title or 'Variants'} at {study.experiment.problem_name(problem) or point_label(problem)}"
    words = _notes(study, spec, steps, published) if notes else ()
    return Table(title, "Variant", tuple(columns), tuple(rows), words)


def _steps(study: Study, trials: Sequence[StudyTrial]) -> list[Step]:
    """Return the rows in order: the study's steps, other kernels, libraries, CPU."""
    best = {trial.contender: trial for trial in best_of_tunables([trial for trial in trials if trial.is_right])}
    places = {name: place for place, name in enumerate(study.experiment.steps)}
    firsts = [group[0] for group in grouped(by_kind(trials), lambda trial: trial.contender).values()]
    firsts.sort(key=lambda trial: places.get(trial.variant, len(places)))
    rows, before = [], None
    for first in firsts:
        trial = best.get(first.contender)
        if trial is None:
            rows.append(Step(first))
            continue
        bases = {"cumulative_speedup": study.baseline_of(trial)}
        if trial.variant in places:
            bases["step_speedup"] = before if before and before.device == trial.device else None
            before = trial
        rows.append(_step(study, trial, bases))
    return rows


def _step(study: Study, trial: StudyTrial, bases: Mapping[str, StudyTrial | None]) -> Step:
    values = {name: getattr(trial, QUANTITIES[name].attribute) for name in PLAIN}
    notes = {}
    for name, base in bases.items():
        if base is not None and base is not trial:
            ratio, verdict = study.ratio(base, trial), study.verdict(base, trial)
            values[name] = 1 / ratio if ratio else None
            words = verdict.value if verdict in (Verdict.SAME, Verdict.UNDECIDED) else ""
            notes[name] = ", ".join(filter(None, [words, doubt_of(base, trial)]))
            if study.are_apart(base, trial):
                notes[name] = APART
    return Step(trial, {name: value for name, value in values.items() if value is not None}, notes)


def _published(study: Study, spec: TableSpec, problem: Point) -> tuple[list[PublishedValue], str]:
    """Return the published values to show, and what to add to their heading when they are of another problem."""
    table = [value for value in study.published if value.table == spec.published and value.measure in HEADINGS]
    here = [value for value in table if value.fits(value.variant, problem, {})]
    if here or not table:
        return here, ""
    others = list(dict.fromkeys(Point(value.problem) for value in table))
    return [value for value in table if Point(value.problem) == others[-1]], f", at {point_label(others[-1])}"


def _scale(name: str, values: Sequence[float | None], published: Published) -> Scale:
    """Return the unit of one column; the published column has the same one, so that the two can be compared."""
    both = [*values, *(value.value for value in published if value.measure == name)]
    return choose_scale(QUANTITIES[name].dimension if name in QUANTITIES else "ratio", both)


def _measured_cells(step: Step, columns: Sequence[str], scales: Mapping[str, Scale]) -> list[Cell]:
    trial = step.trial
    if not step.values:
        harmless = trial.state in NOT_RUN or trial.is_expected
        return [Cell(_ending(trial), "missing" if harmless else "failed", span=len(columns))]
    cells = []
    for name in columns:
        value, note = step.values.get(name), step.notes.get(name, "")
        if value is None:
            cells.append(replace(MISSING, note=note))
            continue
        if name == "time":
            bounds = trial.interval or ()
            note = "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}".join(map(scales[name].format, bounds)) or trial.few_samples
        cells.append(
            Cell(scales[name].format(value), note=note, share=min(value, 1.0) if name.endswith("share") else None)
        )
    return cells


def _published_cells(
    trial: StudyTrial, columns: Sequence[str], scales: Mapping[str, Scale], published: Published
) -> list[Cell]:
    cells = []
    for name in columns:
        found = next((value for value in published if value.measure == name and value.variant == trial.variant), None)
        text = "–" if found is None else found.text if found.value is None else scales[name].format(found.value)
        cells.append(Cell(text, "number" if found else "missing"))
    return cells


def _below(study: Study, trial: StudyTrial) -> str:
    """Return what stands below a variant's name."""
    kind = trial.kind if trial.kind not in ("kernel", trial.origin.lower()) else ""
    tunables = trial.tunables_label if trial.is_right else ""
    return " · ".join(filter(None, [trial.origin, kind, tunables, study.age(trial)]))


def _ending(trial: StudyTrial) -> str:
    if trial.state is State.WRONG_RESULT and trial.check_error is not None:
        return f"{words_of(trial)}: error {trial.check_error:.3g} × allowed"
    return words_of(trial)


def _notes(study: Study, spec: TableSpec, steps: Sequence[Step], published: Published) -> tuple[str, ...]:
    timed = [step.trial for step in steps if step.values]
    few = ", or how many samples where they are too few for one" if any(each.few_samples for each in timed) else ""
    measures = sorted({trial.measure for trial in timed if trial.measure})
    words = " or ".join(f"{each} ({CACHES.get(each, each)})" for each in measures)
    roofs = " and ".join(
        f"{format_value('bandwidth', device.read_bandwidth)} on {device.label}"
        for device in study.devices
        if device.read_bandwidth
    )
    sheets = " and ".join(
        f"{format_value('bandwidth', device.theoretical_bandwidth)} on {device.label}"
        for device in study.devices
        if device.theoretical_bandwidth
    )
    against = f"Speedup is against {shorten(study.stand_in or study.baseline)}"
    if study.stand_in:
        against += f", as the baseline {shorten(study.baseline)} has no right, timed result here"
    elif study.experiment.steps:
        against += ", Step against the step before"
    notes = [
        f"Time is the median; below it the {level_text(study.confidence)} interval of the median{few}. "
        "Bandwidth is useful bytes (inputs once, outputs once) over time.",
        f"Times are {words}; Total includes the transfers to the device and back, which the host does not make."
        if words
        else "",
        f"Of peak: share of the read bandwidth that was measured at the start of the sweep, {roofs}." if roofs else "",
        f"Of data sheet: share of the bandwidth that memory clock and bus width give, {sheets}." if sheets else "",
        f"{against}. Ratios are cuprof compare's estimates, not quotients of the medians shown.",
        *ratio_notes(note for step in steps for note in step.notes.values()),
        ABOVE_PEAK if any(step.values.get("share", 0.0) > 1 for step in steps) else "",
        "Published figures were measured by others on the machine named above them; "
        "they are here to compare shapes, not speeds."
        if published
        else "",
        spec.note,
    ]
    return tuple(filter(None, notes))


def fastest_table(study: Study) -> Table | None:
    """Return the ten fastest configurations of each variant at the reference problem; None where few were tried."""
    trials = [trial for trial in study.right_here if trial.tunables and trial.median_ns]
    if len(trials) <= ENOUGH:
        return None
    best_ns = min(by_sure_time(trial) for trial in trials)
    scale = choose_scale("time", [best_ns])
    rows = []
    for contender, tried in grouped(trials, lambda trial: trial.contender).items():
        for trial in sorted(tried, key=by_sure_time)[:TOP]:
            sure_ns = by_sure_time(trial)
            cells = (Cell(scale.format(trial.median_ns), note=trial.few_samples), Cell(format_ratio(sure_ns / best_ns)))
            rows.append(Row(contender, trial.tunables_label, cells, "fastest" if sure_ns == best_ns else ""))
    note = f"The {TOP} fastest of each variant, of {len(trials)} configurations at {trials[0].problem_name}."
    if any(trial.few_samples for trial in trials):
        note += " Of samples too few for an interval the longest counts."
    columns = (Column(f"time {scale.unit}"), Column("× the fastest"))
    return Table("Fastest configurations", "Variant", columns, tuple(rows), (note,), folded=True)
