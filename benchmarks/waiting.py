"""How long people wait for cuprof: for compilers, first rows, whole sweeps, and where nothing is left to do.

    python -m benchmarks.waiting --rows "start,16 CUB,768"

Each row stands beside its target, which is of an H200 with 16 cores, and beside Kernel Tuner where it does the same and
is installed. Rows that compile or plan need no GPU. Kernel Tuner's own scripts run where `--examples` names their
folder.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.gpu import NoGpuError, require_gpu
from benchmarks.process import ROOT, run
from benchmarks.space import copy_project
from benchmarks.table import make_parser, report, start
from cuprof.builds import BuildPool
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.core.errors import CuprofError
from cuprof.core.point import Point
from cuprof.core.processes import count_cores
from cuprof.core.records import DeviceFacts
from cuprof.families import Family
from cuprof.families.fingerprint import source_text
from cuprof.families.origin import load_family
from cuprof.plan import Selection, plan

COLUMNS = ("row", "unit", "cuprof", "target", "Kernel Tuner", "fault")
ARCH = "sm_90"
WIDE = {
    "BLOCKS = (32, 64, 128, 256, 512, 1024)": "BLOCKS = tuple(range(32, 769, 32))",
    "PER_THREAD = (1, 2, 4, 8, 16, 32, 64, 128)": "PER_THREAD = tuple(range(1, 33))",
}
"""Edits of axpy's family.py that give it 768 configurations."""
FEW = ("measure.min_samples=7", "measure.max_samples=7", "measure.patience_seconds=1")
TWENTY = ("measure.min_samples=20", "measure.max_samples=20")
PRECISE = ("measure.target=0.005", "measure.max_samples=5000", "measure.max_seconds=5")
SUMS = ("tune.num_blocks=64,256,1024",)
DISTANCES = (
    "tune.block_size_x=32,64,128",
    "tune.block_size_y=1,2,4",
    "tune.tile_size_x=1,2,4",
    "tune.tile_size_y=1,2",
)
"""108 configurations of Kernel Tuner's reduction.py, and of its expdist.py."""
LIMIT_S, STUDIES_S = 120.0, 600.0
"""For a command, and for one that measures all studies."""
JUDGED = (0, 1)
"""Exit codes of a ruling on a right candidate: the same kernel as the baseline may well be undecided."""
SCRIPTS = ROOT / "benchmarks" / "scripts"
ALONE = """
import runpy, sys
import cuprof
cuprof.compare = lambda *functions, inputs, **_: [function(*inputs()) for function in functions]
runpy.run_path(sys.argv[1])
import torch
torch.cuda.synchronize()
"""
"""Runs a script with each of its functions once."""


class NotMeasuredError(CuprofError):
    """Report why a row has no figure."""


@dataclass(frozen=True)
class Sweep:
    """What one command took.

    Args:
        first_row_s: from the command to its first row.
        trials_s: from the first trial's start to the last one's end.
        idle: the share of the time from the first trial's start to the last one's end in which no trial ran.
    """

    wall_s: float
    first_row_s: float
    trials_s: float
    idle: float


class Bench:
    """A copy of the benchmarks' project, and an empty cache of builds.

    Args:
        folder: for everything that is written.
        examples: Kernel Tuner's scripts, if they are there.
    """

    def __init__(self, folder: Path, examples: Path | None) -> None:
        self.folder, self.examples = folder, examples
        self.project = copy_project(folder / "project")
        family = self.project / "kernels" / "axpy" / "family.py"
        text = family.read_text()
        for old, new in WIDE.items():
            text = text.replace(old, new)
        family.write_text(text)
        # Some images forbid Python to keep bytecode: every process would compile each module that it imports.
        self.environment = {"CUPROF_CACHE": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": ""}

    def run(
        self, *words: str, folder: Path | None = None, accept: Sequence[int] = (0,), limit_s: float = LIMIT_S
    ) -> float:
        """Run a command and return its seconds.

        Args:
            accept: exit codes that are no failure.
            limit_s: after which it is stopped.

        Raises:
            NotMeasuredError: it failed.
        """
        command = [sys.executable, "-m", "cuprof", *words]
        place = folder or self.project
        logs = self.folder / "logs"
        answer = run(command, logs, folder=place, environment=self.environment, limit_s=limit_s, accept=accept)
        if answer.fault:
            raise NotMeasuredError(answer.fault)
        return answer.wall_s

    def sweep(self, *words: str) -> Sweep:
        """Run a sweep into a database of its own, and return what it took.

        Raises:
            NotMeasuredError: it failed.
        """
        database = self.folder / f"{len(list(self.folder.glob('*.sqlite')))}.sqlite"
        began = time.time()
        wall_s = self.run("sweep", *words, f"store.url=sqlite:///{database}", "report=none", "measure.modes=[cold]")
        with closing(sqlite3.connect(database)) as connection:
            rows = connection.execute("SELECT started_at, duration_ns, recorded_at FROM run").fetchall()
        spans = sorted((_seconds(start), _seconds(start) + duration / 1e9) for start, duration, _ in rows)
        first_row_s = min(_seconds(recorded) for *_, recorded in rows) - began
        return Sweep(wall_s, first_row_s, max(end for _, end in spans) - spans[0][0], _find_idle(spans))

    def axpy(self, *words: str) -> Sweep:
        """Sweep the 768 configurations of axpy."""
        tune = (
            f"tune.block={','.join(map(str, range(32, 769, 32)))}",
            f"tune.per_thread={','.join(map(str, range(1, 33)))}",
        )
        return self.sweep("family=axpy", "problem.n=2**24", *tune, *words)


def _seconds(stored: str) -> float:
    return datetime.fromisoformat(f"{stored}+00:00").timestamp()


def _find_idle(spans: Sequence[tuple[float, float]]) -> float:
    """Return the share of a time that no span covers."""
    busy = 0.0
    until = spans[0][0]
    for begin, end in spans:
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    return 1 - busy / (until - spans[0][0])


def compile_all(name: str, tunables: Sequence[str], count: int, bench: Bench) -> float:
    """Return the seconds that configurations of a family take to compile side by side, once the pool is warm."""
    family = load_family(bench.project / "kernels" / name)
    builds = _list_builds(family, tunables)
    pool = BuildPool(bench.folder / f"builds-{name}")
    # Sources that are not counted load the compiler and its headers, and start a process for each core.
    warm = [replace(builds[0], text=f"{builds[0].text}// {number}\n") for number in range(count_cores())]
    for future in [pool.start(build) for build in warm]:
        future.result()
    began = time.perf_counter()
    for future in [pool.start(build) for build in builds[:count]]:
        future.result()
    return time.perf_counter() - began


def _list_builds(family: Family, tunables: Sequence[str]) -> list[NvrtcBuild]:
    """Return the builds of every choice of tunables."""
    (variant,) = family.variants.values()
    problem = Point((axis.name, axis.default) for axis in family.axes)
    values = [next(one.values for one in variant.tunables if one.name == name) for name in tunables]
    text, builds = source_text(family, variant), list[NvrtcBuild]()
    for chosen in product(*values):
        program = variant.make(problem, Point(zip(tunables, chosen, strict=True)))
        builds.append(NvrtcBuild(text, str(variant.source), ARCH, program.defines, program.options))
    return builds


def plan_wide(bench: Bench) -> float:
    """Return the microseconds that a trial of 16,000 takes to plan."""
    family = load_family(bench.project / "kernels" / "wide")
    selection = Selection(tune={"block": ("all",), "unroll": ("all",)})
    devices = {"cpu": DeviceFacts("cpu", 0, "a processor")}
    plan(family, selection, devices)
    began = time.perf_counter()
    planned = plan(family, selection, devices)
    return (time.perf_counter() - began) / len(planned.trials) * 1e6


def begin_small(bench: Bench) -> float:
    """Return the seconds from a small sweep's command to its first row, with nothing stored."""
    words = ("family=axpy", "problem.n=2**20", "tune.block=256", *FEW)
    bench.sweep(*words, "tune.per_thread=1")  # bytecode, the device's calibration
    return bench.sweep(*words, "tune.per_thread=2,3").first_row_s


def begin_cub(bench: Bench) -> float:
    """Return the seconds to the first row of 16 configurations that include CUB."""
    return _sweep_cub(bench).first_row_s


def idle_cub(bench: Bench) -> float:
    """Return the share of such a sweep, in percent, in which the device waits."""
    return 100 * _sweep_cub(bench).idle


def _sweep_cub(bench: Bench) -> Sweep:
    bench.environment["CUPROF_CACHE"] = tempfile.mkdtemp(dir=bench.folder)
    return bench.sweep("family=cub_sum", "tune.block=64,128,256,512", "tune.per_thread=2,4,8,16", *FEW)


def sweep_axpy(words: Sequence[str], is_built: bool, bench: Bench) -> float:
    """Return the seconds of a sweep over 768 configurations of axpy."""
    if is_built:
        bench.axpy(*FEW)
    return bench.axpy(*words).wall_s


def do_nothing(bench: Bench) -> float:
    """Return the seconds of all bundled studies when everything is stored."""
    words = ("sweep", "experiment=all_studies", "measure=quick", f"store.url=sqlite:///{bench.folder}/studies.sqlite")
    bench.run(*words, f"report.path={bench.folder}/pages", folder=ROOT, limit_s=STUDIES_S)
    return bench.run(*words, f"report.path={bench.folder}/pages", folder=ROOT)


def judge(words: Sequence[str], bench: Bench) -> float:
    """Return the seconds of judging one kernel that has not been compiled before."""
    source = (bench.project / "kernels" / "axpy" / "axpy.cu").read_text()
    as_root = ("--as-root",) if os.geteuid() == 0 else ()
    for text in ("// bytecode, the device's calibration\n", "// a candidate\n"):
        candidate = bench.folder / "candidate.cu"
        candidate.write_text(source + text)
        taken = bench.run("judge", "axpy", str(candidate), *as_root, *words, accept=JUDGED)
    return taken


def run_example(name: str, bench: Bench) -> float:
    """Return the seconds of one of Kernel Tuner's own scripts, unmodified."""
    return bench.run("sweep", _find_example(name, bench), "measure=quick", "report=none")


def begin_example(name: str, words: Sequence[str], bench: Bench) -> float:
    """Return the seconds to the first row of such a script."""
    return bench.sweep(_find_example(name, bench), "measure=quick", *words).first_row_s


def _find_example(name: str, bench: Bench) -> str:
    if bench.examples is None or not (bench.examples / name).is_file():
        raise NotMeasuredError(f"not measured: give --examples FOLDER with Kernel Tuner's {name}")
    return str((bench.examples / name).resolve())


def share_of_script(name: str, bench: Bench) -> float:
    """Return how many times as long a sweep of a script takes as the script alone and the sweep's own trials."""
    script = str(SCRIPTS / name)
    work = bench.folder / "logs"
    alone = run([sys.executable, "-c", ALONE, script], work, environment={"PYTHONPATH": str(ROOT)}, limit_s=LIMIT_S)
    if alone.fault:
        raise NotMeasuredError(alone.fault)
    taken = bench.sweep(script, "measure=quick")
    return taken.wall_s / (alone.wall_s + taken.trials_s)


def sweep_script(name: str, bench: Bench) -> float:
    """Return the seconds that the trials of a script take."""
    return bench.sweep(str(SCRIPTS / name), "measure=quick").trials_s


def sweep_definition(name: str, bench: Bench) -> float:
    """Return the seconds of a definition's sweep."""
    return bench.sweep(str(SCRIPTS / name), "measure=quick").wall_s


def tune_by_kernel_tuner() -> float:
    """Return the seconds that Kernel Tuner takes for the 768 configurations, unchecked and hot."""
    import numpy as np

    try:
        from kernel_tuner import tune_kernel
    except ImportError as error:
        raise NotMeasuredError(f"Kernel Tuner is not installed, or not all that it needs: {error}") from None
    x = np.random.default_rng().random(2**24, np.float32)
    began = time.perf_counter()
    tune_kernel(
        "axpy",
        (ROOT / "benchmarks/project/kernels/axpy/axpy.cu").read_text(),
        problem_size=x.size,
        arguments=[x, x, np.empty_like(x), np.float32(1.5), np.uint32(x.size)],
        tune_params={"BLOCK": list(range(32, 769, 32)), "ITEMS": list(range(1, 33))},
        grid_div_x=["BLOCK", "ITEMS"],
        block_size_names=["BLOCK"],
        lang="CUPY",
        iterations=7,
        quiet=True,
    )
    return time.perf_counter() - began


@dataclass(frozen=True)
class Wait:
    """One row: what people wait for, and for how long at most.

    Args:
        library: the package of the row's script; a Triton kernel of the script's own stands in for a missing one.
    """

    name: str
    unit: str
    target: float
    measure: Callable[[Bench], float]
    needs_gpu: bool = True
    peer: Callable[[], float] | None = None
    library: str = ""


WAITS = (
    Wait("16 CUB configurations built", "s", 2.0, partial(compile_all, "cub_sum", ("block", "per_thread"), 16), False),
    Wait("96 light builds", "s", 0.3, partial(compile_all, "axpy", ("block", "per_thread"), 96), False),
    Wait("planning a trial", "µs", 20.0, plan_wide, False),
    Wait("start: first row of a small sweep", "s", 2.5, begin_small),
    Wait("16 CUB configurations: first row", "s", 5.0, begin_cub),
    Wait("16 CUB configurations: device idle", "%", 10.0, idle_cub),
    Wait("768 configurations, 7 samples, cold", "s", 9.0, partial(sweep_axpy, FEW, False), peer=tune_by_kernel_tuner),
    Wait("768 configurations, 20 samples, built", "s", 10.0, partial(sweep_axpy, TWENTY, True)),
    Wait("768 configurations to ±0.5 %, built", "s", 50.0, partial(sweep_axpy, PRECISE, True)),
    Wait(
        "768 configurations, the best to ±0.5 %", "s", 15.0, partial(sweep_axpy, (*PRECISE, "measure.race=true"), True)
    ),
    Wait("nothing to do: all_studies measure=quick", "s", 5.0, do_nothing),
    Wait("judge: one problem, quick, one round", "s", 2.5, partial(judge, ("--rounds=1", "measure=quick"))),
    Wait("judge: defaults", "s", 8.0, partial(judge, ())),
    Wait("SOL-ExecBench's rmsnorm, 28 trials", "s", 60.0, partial(sweep_definition, "rmsnorm/definition.json")),
    Wait(
        "Liger-Kernel's script ÷ (alone + trials)",
        "×",
        1.4,
        partial(share_of_script, "liger.py"),
        library="liger_kernel",
    ),
    Wait("QuACK's script ÷ (alone + trials)", "×", 1.4, partial(share_of_script, "quack_norm.py"), library="quack"),
    Wait("KernelBench's level 2, problem 1: trials", "s", 15.0, partial(sweep_script, "kernelbench.py")),
    *(
        Wait(f"Kernel Tuner's {name}", "s", target, partial(run_example, name))
        for name, target in {"vector_add.py": 5.0, "matmul.py": 6.0}.items()
    ),
    *(
        Wait(f"Kernel Tuner's {name}, 108 configurations: first row", "s", 10.0, partial(begin_example, name, words))
        for name, words in {"reduction.py": SUMS, "expdist.py": DISTANCES}.items()
    ),
)


def measure(wait: Wait, folder: Path, examples: Path | None) -> dict[str, Any]:
    """Return a row of the table."""
    row: dict[str, Any] = {"row": wait.name, "unit": wait.unit, "target": wait.target}
    with tempfile.TemporaryDirectory(dir=folder) as own:
        try:
            if wait.needs_gpu:
                require_gpu()
            row["cuprof"] = taken = wait.measure(Bench(Path(own), examples))
            row["holds"] = taken <= wait.target
            if wait.library and find_spec(wait.library) is None:
                row["fault"] = f"{wait.library} is not installed; the script's own Triton kernel stands in for it"
            if wait.peer:
                row["Kernel Tuner"] = wait.peer()
        except (CuprofError, NoGpuError) as error:
            row["fault"] = str(error)
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the chosen rows, print and keep them; return 0 where every one is within its target."""
    parser = make_parser("how long people wait for cuprof")
    parser.add_argument("--rows", default="", help="only rows whose names hold one of these texts, separated by commas")
    parser.add_argument("--examples", type=Path, help="folder of Kernel Tuner's own CUDA examples")
    options = parser.parse_args(argv)
    wanted = [text.strip() for text in options.rows.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for wait in WAITS:
            if any(text in wait.name for text in wanted):
                rows.append(measure(wait, Path(folder), options.examples))
                print(f"{wait.name}: {rows[-1].get('cuprof', rows[-1].get('fault'))}", file=sys.stderr, flush=True)
    criteria: dict[str, bool | None] = {
        f"{row['row']}: at most {row['target']:g} {row['unit']}": row["cuprof"] <= row["target"]
        if "cuprof" in row
        else None
        for row in rows
    }
    return report("waiting", COLUMNS, rows, options.out, criteria)


if __name__ == "__main__":
    sys.exit(start(main))
