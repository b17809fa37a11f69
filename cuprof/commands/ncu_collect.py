"""`cuprof ncu-collect`: collect hardware counters for the trials of an experiment."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict
from threading import Thread
from typing import TYPE_CHECKING

from cuprof.project import Project

if TYPE_CHECKING:
    import pandas as pd

    from cuprof.config import SweepConfig
    from cuprof.ncu.collect import CollectResult
    from cuprof.ncu.head_start import Batch
    from cuprof.ncu.setting import Setting
    from cuprof.records import Conditions, Trial
    from cuprof.store import Store

HELP = """\
usage: cuprof ncu-collect [SETTING=VALUE ...] [OPTION ...]

Run the trials of an experiment under Nsight Compute and store their hardware counters beside their timings. Takes the
same selection as sweep. Every trial is built and checked first; what is profiled already is not profiled again; an
interrupted collection goes on where it stopped.

Exit code: 0 fine, 1 some trial or metric failed, 2 bad input or Nsight Compute cannot work here.

settings:
  experiment=NAME         the study (default: reduction); see cuprof list experiments
  variants=A,B            names or patterns; problem.AXIS=…, tune.NAME=… as for sweep
  ncu=study               the metric set: study, memory, compute, instructions, roofline, occupancy, full
  +ncu.metrics=[A,B]      metrics beside the set's; see cuprof list metrics
  ncu.cache_control=none  hot counters; all (default) empties the caches before every pass: cold counters
  ncu.path=FILE           the ncu program; otherwise PATH, CUDA_HOME and the usual folders
  ncu.batch=64            trials given to one ncu process
  ncu.time_limit_s=60     seconds that one trial may take under ncu
  retry=failed            try trials again that failed under ncu (all: profile everything anew)
  store.url=URL           another database, any SQLAlchemy URL
  dry_run=true            list the trials; run nothing
  output=json             counters as JSON on the standard output

options:
  -h, --help              show this text
  --cfg job               show the composed configuration; further options of Hydra's: --hydra-help

examples:
  cuprof ncu-collect experiment=reduction
  cuprof ncu-collect experiment=reduction ncu=memory problem.n=2**24 variants=sequential,last_warp
  cuprof ncu-collect experiment=reduction +ncu.metrics=[dram__bytes_read.sum] ncu.cache_control=none"""


def main(argv: Sequence[str]) -> int:
    """Run the command; see `HELP`."""
    if {"-h", "--help"} & set(argv):
        print(HELP)
        return 0
    from cuprof.commands import hydra_app

    hydra_app.prestart_worker(argv)
    return hydra_app.run("ncu-collect", argv, task)


def task(config: SweepConfig, project: Project) -> int:
    """Check, then profile the trials of one composed selection, and print their counters; return the exit code."""
    if config.dry_run:
        from cuprof.ncu.preview import preview
        from cuprof.terminal.preview import print_preview

        print_preview(preview(config, project), config.output)
        return 0
    from cuprof.ncu.artifact import check_folder
    from cuprof.ncu.head_start import Batch
    from cuprof.ncu.setting import make_setting

    setting = make_setting(config.ncu, project)
    check_folder(setting.artifacts)
    # ncu starts before the store and the engine are imported, which takes as long as ncu's own start does.
    with Batch(setting, config.device.cuda or 0) as ahead:
        return _collect(config, project, setting, ahead)


def _collect(config: SweepConfig, project: Project, setting: Setting, ahead: Batch) -> int:
    from cuprof.engine.checking import check_trials
    from cuprof.ncu.collect import collect
    from cuprof.store import Store
    from cuprof.terminal.progress import make_observer

    with Store.open(config.store.url or project.database_url) as store, make_observer() as observer:
        _ = setting.executable.version  # an ncu that cannot work is found before anything is built and checked
        checked = check_trials(config, project, store, observer)
        Thread(target=_import_ahead, daemon=True).start()
        sweep_id, state = checked.result.sweep_id, "interrupted"
        try:
            result = collect(
                checked.trials,
                checked.outcomes,
                setting,
                store=store,
                sweep_id=sweep_id,
                observer=observer,
                retry=config.retry,
                ahead=ahead,
            )
            state = "finished"
        finally:  # the checks have finished the sweep already; its end is that of the collection
            store.finish_sweep(sweep_id, state)
        observer.close()
        _print_counters(checked.trials, result, setting, store, config.output)
    _print_failures(result)
    return max(result.exit_code, checked.result.exit_code)


def _import_ahead() -> None:
    """Import, while ncu works, what its report is read and printed with."""
    for module in ("ncu_report", "pandas"):
        importlib.import_module(module)


def _print_counters(
    trials: Sequence[Trial], result: CollectResult, setting: Setting, store: Store, output: str
) -> None:
    """Print the counters that are stored of these trials, those of earlier collections included."""
    values: dict[str, dict[str, float | str | None]] = {trial.identity: {} for trial in trials}
    units: dict[str, str] = {}
    for row in _read_counters(store, setting.collection.conditions).to_dict("records"):
        if row["identity"] in values:
            number, metric = row["value"], str(row["metric"])
            is_number = number is not None and number == number
            values[str(row["identity"])][metric] = float(number) if is_number else row["text"] or None
            units[metric] = row["unit"] or ""
    whole = setting.collection.section_set or setting.collection.sections
    metrics = _expand(setting.requested, units)
    if output == "json":
        from cuprof.terminal.output import print_json

        shown = {name for found in values.values() for name in found} if whole else set(metrics)
        conditions = asdict(setting.collection.conditions)
        print_json(
            [
                {"identity": trial.identity, "trial": trial.label, **conditions}
                | {"counters": {name: value for name, value in values[trial.identity].items() if name in shown}}
                for trial in trials
            ]
        )
        return
    from cuprof.ncu.table import CounterRow, format_counters

    notes = {**result.skipped, **{failure.identity: failure.state.value for failure in result.failures}}
    rows = [CounterRow(trial.label, values[trial.identity], notes.get(trial.identity, "")) for trial in trials]
    print(format_counters(rows, metrics or _headline(units), units))
    if whole:
        print(f'\n{len(units)} metrics are stored; see cuprof query "SELECT * FROM counters"')


def _read_counters(store: Store, conditions: Conditions) -> pd.DataFrame:
    from cuprof.reading.queries import query

    return query(
        store.url,
        "SELECT identity, metric, value, unit, text FROM counters WHERE identity IS NOT NULL "
        "AND cache_mode = :cache_mode AND clock_control = :clock_control AND replay = :replay",
        asdict(conditions),
    )


def _expand(requested: Sequence[str], stored: Collection[str]) -> list[str]:
    """Return the metrics to show for what was asked for: patterns and names without a suffix stand for several."""
    from cuprof.ncu.report_file import select

    names = [name for name in requested if not name.startswith(("set:", "section:"))]
    expanded = {name: select(sorted(stored), [name]) or ([] if ":" in name else [name]) for name in names}
    return list(dict.fromkeys(metric for name in names for metric in expanded[name]))


def _headline(units: dict[str, str]) -> list[str]:
    """Return which metrics of a whole set are shown: those that cuprof explains and that share a table's width."""
    from cuprof.ncu.metrics import find_metric

    return [name for name in sorted(units) if find_metric(name)][:8]


def _print_failures(result: CollectResult) -> None:
    for failure in result.failures:
        stored = " (stored; retry=failed tries it again)" if failure.is_stored else ""
        print(f"failed: {failure.label}: {failure.state.value}: {failure.message}{stored}", file=sys.stderr)
    for reason in result.missing.values():
        print(f"missing: {reason}", file=sys.stderr)
