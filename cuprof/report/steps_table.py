"""The table of a study in steps: a row a variant, measured figures, and the published ones beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cuprof.core.point import Point
from cuprof.core.records import NOT_RUN, State
from cuprof.core.text import level_text
from cuprof.report.experiment import TableSpec
from cuprof.report.facts import keep
from cuprof.report.failures import SURPRISING_PASS, WORDS, WRONG_AS_EXPECTED
from cuprof.report.labels import point_label, shorten
from cuprof.report.published import PublishedValue
from cuprof.report.quantities import QUANTITIES, Scale, choose_scale, format_value
from cuprof.report.study import Study
from cuprof.report.tables import MISSING, Cell, Column, Row, Table
from cuprof.report.trials import StudyTrial, best_of_tunables, by_kind, grouped
from cuprof.statistics import Verdict

HEADINGS = {
    "time": "Time",
    "bandwidth": "Bandwidth",
    "share": "Of peak",
    "step_speedup": "Step",
    "cumulative_speedup": "Speedup",
    "total": "Total",
}
PLAIN = ("time", "bandwidth", "share", "total")
"""Those of the columns that are quantities of one trial."""


@dataclass(frozen=True)
class Step:
    """One row to be: a contender's best trial, or its first where none is right.

    Args:
        values: column → value in base units; empty unless the trial is right.
        verdicts: column of a ratio → "same" or "undecided" where it is no established difference.
    """

    trial: StudyTrial
    values: Mapping[str, float] = field(default_factory=dict)
    verdicts: Mapping[str, str] = field(default_factory=dict)


def steps_table(study: Study, spec: TableSpec) -> Table:
    """Return time, bandwidth, share of the peak, step and cumulative speedup and total time of every variant."""
    trials = keep(study.trials, spec.where)
    if not any(fact.startswith("problem") for fact in spec.where):
        trials = [trial for trial in trials if trial.problem == study.reference]
    problem = (list(dict.fromkeys(trial.problem for trial in trials)) or [study.reference])[-1]
    rows = _steps(study, [trial for trial in trials if trial.problem == problem])
    published, other = _published(study, spec, problem)
    measured = _measured_columns(rows, bool(study.experiment.steps))
    scales = {name: _scale(name, [row.values.get(name) for row in rows], published) for name in HEADINGS}
    shown = [name for name in HEADINGS if any(value.measure == name for value in published)]
    columns = [Column(HEADINGS[name], scales[name].unit, "Measured here") for name in measured]
    devices = dict.fromkeys(value.device or "a device that is not named" for value in published)
    group = f"Published: {', '.join(devices)} (another machine{other})"
    columns += [Column(HEADINGS[name], scales[name].unit, group, published=True) for name in shown]
    fastest = min((row.values["time"] for row in rows if row.values), default=None)
    made = [
        Row(
            row.trial.contender,
            _words(row.trial),
            (*_measured_cells(row, measured, scales), *_published_cells(row.trial, shown, scales, published)),
            _mark(study, row, fastest),
        )
        for row in rows
    ]
    where = f"{study.experiment.problem_name(problem) or point_label(problem)}"
    title = f"{spec.title or 'Variants'} at {where}"
    return Table(title, "Variant", tuple(columns), tuple(made), _notes(study, spec, rows, published))


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
    values = {name: of(trial) for name in PLAIN if (of := QUANTITIES[name].of)}
    verdicts = {}
    for name, base in bases.items():
        if base is not None and base is not trial:
            ratio, compared = study.ratio(base, trial), study.compare(base, trial)
            values[name] = 1 / ratio if ratio else None
            if compared and compared.verdict in (Verdict.SAME, Verdict.UNDECIDED):
                verdicts[name] = compared.verdict.value
    return Step(trial, {name: value for name, value in values.items() if value is not None}, verdicts)


def _published(study: Study, spec: TableSpec, problem: Point) -> tuple[list[PublishedValue], str]:
    """Return the published values to show, and what to add to their heading when they are of another problem."""
    table = [value for value in study.published if value.table == spec.published and value.measure in HEADINGS]
    here = [value for value in table if value.fits(value.variant, problem, {})]
    if here or not table:
        return here, ""
    others = list(dict.fromkeys(Point(value.problem) for value in table))
    return [value for value in table if Point(value.problem) == others[-1]], f", at {point_label(others[-1])}"


def _measured_columns(rows: Sequence[Step], steps: bool) -> list[str]:
    filled = {name for row in rows for name in row.values}
    always = ("time", "bandwidth", "share", "cumulative_speedup") + (("step_speedup",) if steps else ())
    return [name for name in HEADINGS if name in always or name in filled]


def _scale(name: str, values: Sequence[float | None], published: Sequence[PublishedValue]) -> Scale:
    """Return the unit of one column; the published column has the same one, so that the two can be compared."""
    both = [*values, *(value.value for value in published if value.measure == name)]
    return choose_scale(QUANTITIES[name].dimension if name in QUANTITIES else "ratio", both)


def _measured_cells(row: Step, columns: Sequence[str], scales: Mapping[str, Scale]) -> list[Cell]:
    trial = row.trial
    if not row.values:
        harmless = trial.state in NOT_RUN or trial.is_expected
        return [Cell(_state(trial), "missing" if harmless else "failed", span=len(columns))]
    cells = []
    for name in columns:
        value, note = row.values.get(name), row.verdicts.get(name, "")
        if value is None:
            cells.append(MISSING)
            continue
        if name == "time":
            bounds = trial.interval or ()
            note = "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}".join(map(scales[name].format, bounds)) or trial.few_samples
        cells.append(Cell(scales[name].format(value), note=note, share=min(value, 1.0) if name == "share" else None))
    return cells


def _published_cells(
    trial: StudyTrial, columns: Sequence[str], scales: Mapping[str, Scale], published: Sequence[PublishedValue]
) -> list[Cell]:
    cells = []
    for name in columns:
        found = next((value for value in published if value.measure == name and value.variant == trial.variant), None)
        text = "–" if found is None else found.text if found.value is None else scales[name].format(found.value)
        cells.append(Cell(text, "number" if found else "missing"))
    return cells


def _mark(study: Study, row: Step, fastest: float | None) -> str:
    if row.values and row.values["time"] == fastest:
        return "fastest"
    return "baseline" if row.trial.variant == study.baseline else ""


def _words(trial: StudyTrial) -> str:
    """Return what stands below a variant's name."""
    kind = trial.kind if trial.kind not in ("kernel", trial.origin.lower()) else ""
    notes = [trial.origin, kind, trial.tunables_label if trial.is_right else ""]
    return " · ".join(note for note in notes if note)


def _state(trial: StudyTrial) -> str:
    if trial.is_expected_wrong and trial.state is State.OK:
        return SURPRISING_PASS
    words = WRONG_AS_EXPECTED if trial.is_expected else WORDS.get(trial.state, "not timed")
    if trial.state is State.WRONG_RESULT and trial.check_error is not None:
        return f"{words}: error {trial.check_error:.3g} × allowed"
    return words


def _notes(study: Study, spec: TableSpec, rows: Sequence[Step], published: Sequence[PublishedValue]) -> tuple[str, ...]:
    few = any(row.trial.few_samples for row in rows if row.values)
    notes = [
        f"Time is the median; below it the {level_text(study.confidence)} interval of the median"
        f"{', or how many samples where they are too few for one' if few else ''}. "
        "Bandwidth is useful bytes (inputs once, outputs once) over time."
    ]
    measures = sorted({row.trial.measure for row in rows if row.values and row.trial.measure})
    words = {"cold": "inputs not in the L2 cache", "hot": "caches as the previous repetition left them"}
    if measures:
        notes.append(
            "Times are "
            + " or ".join(f"{each} ({words.get(each, each)})" for each in measures)
            + "; Total includes the transfers to the device and back."
        )
    roofs = [
        f"{format_value('bandwidth', device.read_bandwidth)} on {device.label}"
        for device in study.devices
        if device.read_bandwidth
    ]
    if roofs:
        notes.append(
            f"Of peak: share of the read bandwidth that was measured at the start of the sweep, {' and '.join(roofs)}."
        )
    if study.stand_in:
        notes.append(
            f"Speedup is against {shorten(study.stand_in)}, as the baseline {shorten(study.baseline)} has no right, "
            "timed result here."
        )
    else:
        notes.append(
            f"Speedup is against {shorten(study.baseline)}"
            + (", Step against the step before." if study.experiment.steps else ".")
        )
    if any(row.verdicts for row in rows):
        notes.append("Below a ratio: the verdict of cuprof compare where it is neither faster nor slower.")
    if published:
        notes.append(
            "Published figures were measured by others on the machine named above them; "
            "they are here to compare shapes, not speeds."
        )
    return (*notes, *filter(None, [spec.note]))
