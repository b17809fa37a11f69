"""The table of a study in steps: a row a variant, measured figures, and the published ones beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cuprof.analysis.experiment import TableSpec
from cuprof.analysis.facts import keep, point_label
from cuprof.analysis.failures import SURPRISING_PASS, WORDS, WRONG_AS_EXPECTED, is_expected
from cuprof.analysis.intervals import few_samples, has_interval, level_text
from cuprof.analysis.published import PublishedValue, devices_of
from cuprof.analysis.quantities import Scale, choose_scale, format_value, shorten
from cuprof.analysis.study import Study, best_of_tunables
from cuprof.analysis.tables import MISSING, Cell, Column, Row, Table
from cuprof.analysis.trials import by_kind
from cuprof.point import Point

MEASURED = ("time", "bandwidth", "share", "step_speedup", "cumulative_speedup", "total")
HEADINGS = {
    "time": "Time",
    "bandwidth": "Bandwidth",
    "share": "Of peak",
    "step_speedup": "Step",
    "cumulative_speedup": "Speedup",
    "total": "Total",
}
DIMENSIONS = {"time": "time", "bandwidth": "bandwidth", "share": "share", "total": "time"}


def steps_table(study: Study, spec: TableSpec) -> Table:
    """Return time, bandwidth, share of the peak, step and cumulative speedup and total time of every variant."""
    trials = keep(study.trials, spec.where)
    if not any(fact.startswith("problem") for fact in spec.where):
        trials = trials[trials["problem"] == study.reference]
    problems = list(dict.fromkeys(trials["problem"]))
    problem = problems[-1] if problems else study.reference
    trials = trials[trials["problem"] == problem]
    rows = _rows(study, trials)
    published, other = _published(study, spec, problem)
    measured = _measured_columns(rows, bool(study.experiment.steps))
    scales = {name: _scale(name, [row["values"].get(name) for row in rows], published) for name in HEADINGS}
    shown = [name for name in HEADINGS if any(value.measure == name for value in published)]
    columns = [Column(HEADINGS[name], scales[name].unit, "Measured here") for name in measured]
    group = f"Published: {', '.join(devices_of(published))} (another machine{other})"
    columns += [Column(HEADINGS[name], scales[name].unit, group, published=True) for name in shown]
    fastest = min((row["values"]["time"] for row in rows if row["values"]), default=None)
    made = [_row(study, row, measured, shown, scales, published, fastest) for row in rows]
    where = f"{study.experiment.problem_name(problem) or point_label(problem)}"
    title = f"{spec.title or 'Variants'} at {where}"
    return Table(title, "Variant", tuple(columns), tuple(made), _notes(study, spec, rows, published))


def _rows(study: Study, trials: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows in order: the study's steps, other kernels, libraries, CPU; each with its values or its state."""
    right = trials[trials["trial_id"].isin(study.right["trial_id"])]
    best = {row["contender"]: row for row in best_of_tunables(right).to_dict("records")}
    steps = {name: i for i, name in enumerate(study.experiment.steps)}
    ordered = list(dict.fromkeys(by_kind(trials)["contender"]))
    firsts = {name: trials[trials["contender"] == name].iloc[0].to_dict() for name in ordered}
    ordered.sort(key=lambda name: steps.get(firsts[name]["variant"], len(steps)))
    rows, before = [], None
    for name in ordered:
        trial = best.get(name)
        values: dict[str, float] = {}
        if trial is not None:
            baseline = study.baseline_row(trial)
            values = {key: float(trial[column]) for key, column in _columns().items() if pd.notna(trial[column])}
            if baseline is not None and baseline["trial_id"] != trial["trial_id"]:
                values["cumulative_speedup"] = baseline["time_ns"] / trial["time_ns"]
            if trial["variant"] in steps:
                if before is not None and before["device"] == trial["device"]:
                    values["step_speedup"] = before["time_ns"] / trial["time_ns"]
                before = trial
        rows.append(
            {"trial": trial if trial is not None else firsts[name], "right": trial is not None, "values": values}
        )
    return rows


def _columns() -> dict[str, str]:
    return {"time": "time_ns", "bandwidth": "bandwidth", "share": "share", "total": "total_ns"}


def _published(study: Study, spec: TableSpec, problem: Point) -> tuple[list[PublishedValue], str]:
    """Return the published values to show, and what to add to their heading when they are of another problem."""
    table = [value for value in study.published if value.table == spec.published and value.measure in HEADINGS]
    here = [value for value in table if value.fits(value.variant, problem, {})]
    if here or not table:
        return here, ""
    others = list(dict.fromkeys(Point(value.problem) for value in table))
    return [value for value in table if Point(value.problem) == others[-1]], f", at {point_label(others[-1])}"


def _measured_columns(rows: Sequence[Mapping[str, Any]], steps: bool) -> list[str]:
    filled = {name for row in rows for name in row["values"]}
    always = ("time", "bandwidth", "share", "cumulative_speedup") + (("step_speedup",) if steps else ())
    return [name for name in MEASURED if name in always or name in filled]


def _scale(name: str, values: Sequence[float | None], published: Sequence[PublishedValue]) -> Scale:
    """Return the unit of one column; the published column has the same one, so that the two can be compared."""
    both = [*values, *(value.value for value in published if value.measure == name)]
    return choose_scale(DIMENSIONS.get(name, "ratio"), both)  # type: ignore[arg-type]


def _row(
    study: Study,
    row: Mapping[str, Any],
    measured: Sequence[str],
    shown: Sequence[str],
    scales: Mapping[str, Scale],
    published: Sequence[PublishedValue],
    fastest: float | None,
) -> Row:
    trial, values = row["trial"], row["values"]
    cells = []
    if not row["right"]:
        harmless = trial["state"] == "skipped" or is_expected(trial)
        cells.append(Cell(_state(trial), "missing" if harmless else "failed", span=len(measured)))
    for name in measured if row["right"] else ():
        value = values.get(name)
        if value is None:
            cells.append(MISSING)
        elif name == "time":
            bounds = "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}".join(
                scales[name].format(trial[end]) for end in ("time_low_ns", "time_high_ns")
            )
            cells.append(Cell(scales[name].format(value), note=bounds if has_interval(trial) else few_samples(trial)))
        else:
            cells.append(Cell(scales[name].format(value), share=min(value, 1.0) if name == "share" else None))
    for name in shown:
        found = [value for value in published if value.measure == name and value.variant == trial["variant"]]
        text = scales[name].format(found[0].value) if found and found[0].value is not None else ""
        cells.append(Cell(text or (found[0].text if found else "–"), "number" if found else "missing"))
    mark = ""
    if row["right"] and values["time"] == fastest:
        mark = "fastest"
    elif trial["variant"] == study.baseline:
        mark = "baseline"
    kind = trial["kind"] if trial["kind"] not in ("kernel", trial["origin"].lower()) else ""
    notes = [trial["origin"], kind, trial["tunables_label"] if row["right"] else ""]
    return Row(trial["contender"], " · ".join(note for note in notes if note), tuple(cells), mark)


def _state(trial: Mapping[Any, Any]) -> str:
    if trial["expected"] == "wrong" and trial["state"] == "ok":
        return SURPRISING_PASS
    words = WRONG_AS_EXPECTED if is_expected(trial) else WORDS.get(trial["state"], "not timed")
    if trial["state"] == "wrong_result" and pd.notna(trial["check_error"]):
        return f"{words}: error {trial['check_error']:.3g} × allowed"
    return words


def _notes(
    study: Study, spec: TableSpec, rows: Sequence[Mapping[str, Any]], published: Sequence[PublishedValue]
) -> tuple[str, ...]:
    few = any(few_samples(row["trial"]) for row in rows if row["right"])
    notes = [
        f"Time is the median; below it the {level_text(study.confidence)} interval of the median"
        f"{', or how many samples where they are too few for one' if few else ''}. "
        "Bandwidth is useful bytes (inputs once, outputs once) over time."
    ]
    measures = sorted({row["trial"]["time_measure"] for row in rows if row["right"]})
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
    if published:
        notes.append(
            "Published figures were measured by others on the machine named above them; "
            "they are here to compare shapes, not speeds."
        )
    return (*notes, *([spec.note] if spec.note else []))
