"""What the border costs in sharpness: times by the slope across it against events in the process that executes.

    python -m benchmarks.border --out FOLDER

The first variants of the reduction family, each timed twice across the border and twice by an ordinary worker.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.gpu import require_gpu
from benchmarks.table import make_parser, report, start
from cuprof.config.model import MeasureConfig, SweepConfig
from cuprof.core.point import Point
from cuprof.core.project import bundled
from cuprof.core.records import DeviceFacts, Timing
from cuprof.engine.executor import Executor
from cuprof.families.origin import Folder
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.referee import Border, BorderExecutor
from cuprof.plan import Selection, plan
from cuprof.sandbox.probe import find_refusal
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.devices import DeviceTable
from cuprof.worker.messages import Job, JobTrial, WorkerSettings
from cuprof.worker.method import methods

SIZES = (2**12, 2**18, 2**22, 2**26)
VARIANTS = ("last_warp", "sequential")
COLUMNS = (
    "variant", "n", "events µs", "again %", "border µs", "again % ", "halves %", "± %", "samples",
    "round trip µs", "took s",
)  # fmt: skip


def measure(sizes: Sequence[int], server: ForkServer) -> list[dict[str, Any]]:
    """Return a row for each variant and size."""
    folder = bundled("kernels") / "reduction"
    origin, config = Folder(folder), MeasureConfig(modes=("cold",))
    device = DeviceTable(WorkerSettings()).describe("cuda")
    assert isinstance(device, DeviceFacts)
    family = origin.load()
    selection = Selection(VARIANTS, problem={"n": tuple(sizes), "dtype": ("float32",)})
    box = Sandbox(visible=(str(folder),), memory_bytes=16 << 30) if not find_refusal() else None
    rows = []
    devices = {"cuda": device}
    for trial in plan(family, selection, devices).trials:
        job = Job(
            origin,
            "cuda",
            trial.problem,
            (JobTrial(trial.identity, trial.variant, trial.tunables, trial.source_text),),
            1,
            config,
            methods(config, "cuda"),
        )
        sweep = SweepConfig(experiment="", family="reduction")
        found: dict[str, list[Timing]] = {"events": [], "border": []}
        for _ in range(2):
            border = Border(sweep, devices, family, server)
            for name, executor in (
                ("events", Executor(WorkerSettings(), sweep.limits, devices=devices)),
                ("border", BorderExecutor(border, box)),
            ):
                started = time.monotonic()
                with executor:
                    (outcome,) = executor.measure(job)
                took_s = time.monotonic() - started
                border.close()
                if outcome.timings:
                    found[name].append(outcome.timings[0])
                else:
                    print(trial.label, name, outcome.state, outcome.message, outcome.log[-500:], file=sys.stderr)
        rows.append(make_row(trial.variant, trial.problem, found, took_s))
        print({name: value for name, value in rows[-1].items() if value is not None}, flush=True)
    return rows


def make_row(variant: str, problem: Point, found: dict[str, list[Timing]], took_s: float) -> dict[str, Any]:
    """Return the table's row for one trial."""
    medians = {name: [timing.summary.median_ns * 1e-3 for timing in timings] for name, timings in found.items()}
    again = {name: 100 * (values[-1] / values[0] - 1) if values else None for name, values in medians.items()}
    last = found["border"][-1] if found["border"] else None
    width = (last.summary.high_ns - last.summary.low_ns) / last.summary.median_ns * 50 if last else None
    durations = [sample.duration_ns for sample in last.samples] if last else []
    middle = len(durations) // 2
    halves = [statistics.median(part or [0.0]) for part in (durations[:middle], durations[middle:])]
    return {
        "variant": variant,
        "n": problem["n"],
        "events µs": medians["events"][0] if medians["events"] else None,
        "again %": again["events"],
        "border µs": medians["border"][0] if medians["border"] else None,
        "again % ": again["border"],
        "halves %": 100 * (halves[1] / halves[0] - 1) if last else None,
        "± %": width,
        "samples": last.summary.count if last else 0,
        "round trip µs": last.details["round_trip_ns"] * 1e-3 if last else None,
        "took s": took_s,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep."""
    parser = make_parser("times across the border against events in the process that executes")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="numbers to add up")
    arguments = parser.parse_args(argv)
    require_gpu()
    with ForkServer() as server:
        rows = measure(arguments.sizes, server)
    return report("border", COLUMNS, rows, arguments.out, {})


if __name__ == "__main__":
    sys.exit(start(main))
