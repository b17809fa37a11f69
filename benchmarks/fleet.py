"""One sweep on one GPU, on two, and on two while the worker of one is killed: wall time, medians, rows.

python -m benchmarks.fleet OUT [--cards 0,1] [--numbers 25.4] [--samples 100] [--kills 3]

768 configurations of one kernel at one problem, checked, cold, ±0.5 %: the problem is cut in blocks that share a
reference. Each sweep has a database and a build cache of its own. A short one goes before them, as the first on a
machine reads gigabytes of libraries from its disk. How many samples were taken is printed: they are most of the work.

An H200's memory pauses every 100 µs. A kernel of 46 to 50 µs, as 2^24 numbers take, meets a pause almost every other
time, and then it is chance how many samples its median needs: in two runs two cards took 7 and 14 % more of them than
one did, of the same kernels; at 60 µs two runs of the same two cards differed by 12 %. 2^25.4 numbers take 120 µs, and
each configuration has so many samples at least that most need no more, and that the start of 3 s is little beside
them. What the ratio would be, had each sweep taken as many samples as the others, is printed too.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

from benchmarks.space import copy_project
from cuprof.core.processes import child_environment
from cuprof.results.queries import query

BLOCKS = tuple(range(32, 1025, 32))
PER_THREAD = tuple(range(1, 25))
BETWEEN_KILLS_S = 4.0
MEDIANS = """
SELECT t.identity, t.state, r.id AS run, r.job, d.ordinal AS card, d.uuid, g.median_ns, g.sample_count AS samples,
    COALESCE(r.id = m.run_id, 0) AS counts, r.started_at, r.recorded_at
FROM sweep_trial AS m JOIN trial AS t ON t.id = m.trial_id JOIN run AS r ON r.trial_id = t.id
JOIN device AS d ON d.id = r.device_id LEFT JOIN timing AS g ON g.run_id = r.id ORDER BY r.id
"""


def main() -> None:
    """Run the sweeps and print what they took and found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cards", default="0,1")
    parser.add_argument("--numbers", type=float, default=25.4, help="log2 of how many numbers the kernel adds")
    parser.add_argument("--samples", type=int, default=100, help="of each configuration at least")
    parser.add_argument("--kills", type=int, default=3, help="of workers; 0 leaves that sweep out")
    parser.add_argument("--most-seconds", type=float, default=150.0, help="for each sweep")
    given = parser.parse_args()
    first = given.cards.split(",")[0]
    frames, walls = {}, {}
    killed = [("killed", given.cards, given.kills)] if given.kills else []
    for name, cards, kills in [("first", given.cards, 0), ("two", given.cards, 0), *killed, ("one", first, 0)]:
        folder = copy_project(given.out / name)
        widen(folder / "kernels" / "axpy" / "family.py")
        blocks = BLOCKS[:1] if name == "first" else BLOCKS
        walls[name] = sweep(folder, cards, kills, given, blocks)
        frames[name] = query(f"sqlite:///{folder / 'db' / 'cuprof.sqlite'}", MEDIANS)
        print(f"{name}: {walls[name]:.1f} s, {describe(frames[name])}", flush=True)
    print(f"wall time of one card / of {given.cards}: {walls['one'] / walls['two']:.2f}")
    more = frames["one"].samples.sum() / frames["two"].samples.sum()
    equal_s = walls["two"] + (more - 1) * measured_s(frames["two"])
    print(f"with as many samples: {walls['one'] / equal_s:.2f}")
    for name in list(walls)[1:-1]:
        same = rows(frames[name]) == rows(frames["one"])
        print(f"{name}: same trials and states as one card's: {same}")
        print(f"{name}: {agreement(frames[name], frames['one'])}")
    print(f"two: {cards_apart(frames['two'])}")


def widen(family: Path) -> None:
    """Give the kernel 768 configurations."""
    text = family.read_text()
    text = re.sub(r"^BLOCKS = .*$", f"BLOCKS = {BLOCKS}", text, flags=re.M)
    family.write_text(re.sub(r"^PER_THREAD = .*$", f"PER_THREAD = {PER_THREAD}", text, flags=re.M))


def sweep(folder: Path, cards: str, kills: int, given: argparse.Namespace, blocks: tuple[int, ...]) -> float:
    """Run a sweep; return its wall time in seconds, from the start of the command to its end."""
    numbers = round(2**given.numbers)
    command = [
        *(sys.executable, "-m", "cuprof", "sweep", "experiment=axpy", f"problem.n={numbers}", "report=none"),
        *("measure.modes=[cold]", "measure.target=0.005", f"measure.min_samples={given.samples}"),
        *(f"device.cuda={cards}", "device.backends=[cuda]"),
        f"tune.block={','.join(map(str, blocks))}",
        f"tune.per_thread={','.join(map(str, PER_THREAD))}",
    ]
    environment = {**child_environment(), "CUPROF_CACHE": str(folder / "cubin")}
    begun = time.monotonic()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            while kills and "\n[" not in (folder / "log").read_text() and process.poll() is None:
                time.sleep(0.1)
            for _ in range(kills):
                time.sleep(BETWEEN_KILLS_S)
                kill_worker(process.pid)
            process.wait(given.most_seconds - (time.monotonic() - begun))
        except subprocess.TimeoutExpired:
            print(f"{folder.name}: stopped after {given.most_seconds:g} s")
            process.terminate()
            process.wait(30)
    return time.monotonic() - begun


def kill_worker(engine: int) -> None:
    """Kill the worker that was started last, with SIGKILL."""
    guardians = [each for each in psutil.Process(engine).children() if "cuprof.worker" in each.cmdline()]
    workers = [worker for guardian in guardians for worker in guardian.children()]
    if workers:
        victim = max(workers, key=lambda worker: worker.create_time())
        print(f"  kill {victim.pid}, one of {len(workers)} workers", flush=True)
        victim.kill()


def describe(frame: pd.DataFrame) -> str:
    """Return how many trials ended how, on which cards."""
    counting = frame[frame.counts.astype(bool)]
    states = ", ".join(f"{count} {state}" for state, count in counting.state.value_counts().items())
    shares = ", ".join(f"{count} on card {card}" for card, count in counting.card.value_counts().items())
    blocks = f"{frame.job.nunique()} jobs, {len(frame) - len(counting)} runs of the reference more"
    return f"{states}; {shares}; {blocks}; {frame.samples.sum():,.0f} samples"


def measured_s(frame: pd.DataFrame) -> float:
    """Return the seconds from the beginning of the first job to the last result."""
    return float((pd.to_datetime(frame.recorded_at).max() - pd.to_datetime(frame.started_at).min()).total_seconds())


def rows(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return trials and their states."""
    counting = frame[frame.counts.astype(bool)]
    return sorted(zip(counting.identity, counting.state, strict=True))


def agreement(several: pd.DataFrame, one: pd.DataFrame) -> str:
    """Return how the medians of a shared sweep lie to those of one card, as they are and by each job's reference."""
    counting = several[several.counts.astype(bool)]
    ours = counting.set_index("identity")
    theirs = one[one.counts.astype(bool)].set_index("identity")
    ratio = (ours.median_ns / theirs.median_ns).dropna()
    reference = several[several.identity.isin(several[~several.counts.astype(bool)].identity)]
    parts = [f"median ratio to one card {ratio.median():.4f}, within 1 %: {np.mean(abs(ratio - 1) < 0.01):.1%}"]
    if len(reference):
        scale = reference.set_index("job").median_ns / reference.median_ns.iloc[0]
        level = scale.reindex(ours.job).to_numpy()
        bridged = (ours.median_ns / level / theirs.median_ns).dropna()
        near = np.mean(abs(bridged / bridged.median() - 1) < 0.01)
        parts.append(f"by the reference {bridged.median():.4f}, within 1 % of that: {near:.1%}")
    for card, of_card in ratio.groupby(ours.card.reindex(ratio.index)):
        low, high = of_card.quantile(0.05), of_card.quantile(0.95)
        parts.append(f"card {card}: {of_card.median():.4f} (5 to 95 %: {low:.4f} to {high:.4f})")
    return "; ".join(parts)


def cards_apart(frame: pd.DataFrame) -> str:
    """Return the reference's medians, job by job."""
    reference = frame[frame.identity.isin(frame[~frame.counts.astype(bool)].identity)]
    return "reference: " + ", ".join(f"card {row.card} {row.median_ns / 1e3:.3f} µs" for row in reference.itertuples())


if __name__ == "__main__":
    main()
