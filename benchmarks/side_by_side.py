"""One kernel, 48 configurations: cuprof, nvbench, Kernel Tuner and Triton's do_bench over the same space.

    python -m benchmarks.side_by_side --out FOLDER

Each tool is a process of its own, timed from before its start until after its end, and compiles everything anew. The
space, the sizes and the launch shapes are the same; how each tool samples and what it does to the caches is its own
default, and the table says so.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu import require_gpu
from benchmarks.process import Answer, ask, run
from benchmarks.space import CONFIGURATIONS, Configuration, copy_project
from benchmarks.table import make_parser, report, start

COLUMNS = (
    "tool", "wall s", "measuring s", "done", "narrow", "best", "best µs", "best IQR %", "best samples", "caches",
    "found",
)  # fmt: skip
SEVEN = ("measure.min_samples=7", "measure.max_samples=7")
SWEEP = ("-m", "cuprof", "sweep", "experiment=axpy", "report=none", "measure.modes=[cold]")
QUERY = """
SELECT CAST(t.tunables AS TEXT) AS tunables, g.median_ns, g.q1_ns, g.q3_ns, g.sample_count, g.stopped_by,
       CAST(g.details AS TEXT) AS details
FROM timing AS g JOIN run AS r ON r.id = g.run_id JOIN trial AS t ON t.id = r.trial_id
WHERE g.measure = 'cold' AND r.state = 'ok'
"""


@dataclass(frozen=True)
class Tool:
    """One line of the table: how to run it in a work folder, and what it leaves the caches like."""

    name: str
    start: Callable[[Path], Answer]
    caches: str


def make_row(tool: Tool, answered: Answer) -> dict[str, Any]:
    """Return the table's row; a tool without a result has its fault in the column `found`."""
    row: dict[str, Any] = {"tool": tool.name, "wall s": answered.wall_s, "caches": tool.caches}
    found = answered.found
    if answered.fault or not found.get("median_ns"):
        return row | {"wall s": None, "found": f"no result: {answered.fault or 'nothing was measured'}"}
    medians = found["median_ns"]
    place = int(np.argmin(medians))
    return row | {
        "measuring s": found["measuring_s"],
        "done": len(medians),
        "narrow": found.get("narrow"),
        "best": CONFIGURATIONS[found["indices"][place]].label,
        "best µs": medians[place] * 1e-3,
        "best IQR %": None if found["spread"][place] is None else 100 * found["spread"][place],
        "best samples": found["samples"][place],
        "found": found.get("note", ""),
    }


def run_cuprof(work: Path, environment: Mapping[str, str], *settings: str) -> Answer:
    """Run the real command in a project and a database of its own."""
    project = copy_project(work / f"project-{len(list(work.glob('project-*')))}")
    ended = run([sys.executable, *SWEEP, *settings], work, folder=project, environment=environment)
    if ended.fault:
        return ended
    return Answer(ended.wall_s, read_sweep(f"sqlite:///{project / 'db' / 'cuprof.sqlite'}"))


def read_sweep(url: str) -> dict[str, Any]:
    """Return what a sweep stored, in the form of the other tools' answers."""
    from cuprof.results.queries import query
    from cuprof.store.store import Store

    with Store.open(url, create=False, read_only=True) as store:
        rows = query(store.url, QUERY).to_dict("records")
    indices = []
    for row in rows:
        tunables = json.loads(row["tunables"])
        indices.append(CONFIGURATIONS.index(Configuration(tunables["block"], tunables["per_thread"])))
    return {
        "indices": indices,
        "median_ns": [row["median_ns"] for row in rows],
        "spread": [(row["q3_ns"] - row["q1_ns"]) / row["median_ns"] for row in rows],
        "samples": [row["sample_count"] for row in rows],
        "narrow": sum(row["stopped_by"] == "interval" for row in rows),
        "measuring_s": sum(json.loads(row["details"]).get("sampling_ns", 0) for row in rows) * 1e-9,
    }


def run_kernel_tuner(work: Path, environment: Mapping[str, str]) -> Answer:
    """Run Kernel Tuner on CuPy, or on cuda-python where its CuPy back end fails."""
    answered = ask("benchmarks.tools.space_kernel_tuner", work, environment=environment)
    if not answered.fault or "not installed" in answered.fault:
        return answered
    second = ask("benchmarks.tools.space_kernel_tuner", work, "--backend", "NVCUDA", environment=environment)
    note = {"note": f"cuda-python back end, since CuPy's failed: {answered.fault[:80]}"}
    return Answer(second.wall_s, {**second.found, **note}, second.fault)


def list_tools(work: Path, cap_s: float) -> dict[str, Tool]:
    """Return the tools by the name that --tools takes; each compiles into a cache of its own, empty before."""

    def fresh(name: str) -> dict[str, str]:
        return {"CUPROF_CACHE": str(work / f"cubins-{name}"), "CUPY_CACHE_DIR": str(work / f"cupy-{name}")}

    def sweep(cache: str, *settings: str) -> Callable[[Path], Answer]:
        return lambda folder: run_cuprof(folder, fresh(cache), *settings)

    def child(module: str, *arguments: str) -> Callable[[Path], Answer]:
        return lambda folder: ask(
            f"benchmarks.tools.{module}", folder, *arguments, environment=fresh(module), limit_s=240
        )

    return {
        "cuprof": Tool("cuprof, ±0.5 %", sweep("target"), "cold, clean"),
        "cuprof-7": Tool("cuprof, 7 samples", sweep("seven", *SEVEN), "cold, clean"),
        "cuprof-7-built": Tool("cuprof, 7 samples, built before", sweep("seven", *SEVEN), "cold, clean"),
        "nvbench": Tool(f"nvbench, cap {cap_s:g} s", child("space_nvbench", "--cap-s", str(cap_s)), "cold, dirty"),
        "kernel-tuner": Tool(
            "Kernel Tuner, 7 samples", lambda folder: run_kernel_tuner(folder, fresh("tuner")), "not flushed"
        ),
        "triton": Tool("Triton do_bench", child("space_triton"), "cold, dirty"),
    }


def make_criteria(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, bool | None]:
    """Return what is asked of the rows (by the names of --tools), and whether it holds."""

    def wall(name: str) -> float | None:
        value = rows.get(name, {}).get("wall s")
        return float(value) if value is not None else None

    ours, theirs, seven, tuner = (wall(name) for name in ("cuprof", "nvbench", "cuprof-7", "kernel-tuner"))
    narrow = rows.get("cuprof", {}).get("narrow")
    return {
        f"cuprof: interval of ±0.5 % reached for all {len(CONFIGURATIONS)} configurations": (
            None if narrow is None else narrow == len(CONFIGURATIONS)
        ),
        "cuprof, ±0.5 %: at most a tenth of nvbench's wall time": (
            None if ours is None or theirs is None else ours <= theirs / 10
        ),
        "cuprof, 7 samples: at most Kernel Tuner's wall time": (
            None if seven is None or tuner is None else seven <= tuner
        ),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; return 0 where every criterion holds."""
    names = list(list_tools(Path(), 0))
    parser = make_parser("one kernel in 48 configurations by four tools")
    parser.add_argument("--tools", nargs="+", choices=names, default=names)
    parser.add_argument("--cap-s", type=float, default=2.0, help="nvbench's cap a measurement (default: %(default)s)")
    arguments = parser.parse_args(argv)
    require_gpu()
    rows = {}
    with tempfile.TemporaryDirectory(prefix="cuprof-side-by-side-") as folder:
        tools = list_tools(Path(folder), arguments.cap_s)
        for name in arguments.tools:
            rows[name] = make_row(tools[name], tools[name].start(Path(folder)))
            wall = rows[name]["wall s"]
            print(f"{name}: {rows[name]['found'] if wall is None else f'{wall:.2f} s'}", file=sys.stderr, flush=True)
    return report("side_by_side", COLUMNS, list(rows.values()), arguments.out, make_criteria(rows))


if __name__ == "__main__":
    sys.exit(start(main))
