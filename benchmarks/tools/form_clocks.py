"""Every form that launches on the GPU, executed in one process and read by two clocks at a time: events and CUPTI.

CUPTI notes when kernels begin and end by instrumenting those that are loaded once it is asked for records, which makes
some of them slower. So it is asked last, and both clocks look at the same executions, read as a sweep reads them: one
reading is one execution, or the mean of those at every phase of the launch queue. What is compared is the median of the
differences, reading by reading: where executions have several levels, each clock's median falls on one by chance.
"""

from __future__ import annotations

import argparse
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tools.answer import answer

READINGS, READINGS_OVER_PHASES = 40, 12
WARM_UP = 5
SCRATCH_BYTES = 256 << 20


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return variant → medians in nanoseconds by "events", by "cupti", and of their differences: "apart"."""
    from cuprof.backends.contract import ReadingOptions
    from cuprof.backends.cuda.backend import CudaBackend
    from cuprof.backends.cuda.cupti import OWN_PREFIX, get_records
    from cuprof.core.point import Point
    from cuprof.families.fingerprint import source_text
    from cuprof.families.origin import load_family
    from cuprof.families.toolchain import is_installed

    family, problem = load_family(arguments.family), Point(n=arguments.n)
    backend, signature = CudaBackend(), family.signature(problem)
    timer, stream = backend.device.timer, backend.device.stream
    inputs = family.generate(problem, np.random.default_rng(1))
    session = backend.open(signature, inputs, ReadingOptions(), SCRATCH_BYTES)
    found: dict[str, dict[str, float]] = {}
    runnables: dict[str, Any] = {}
    for name, variant in family.variants.items():
        if variant.backend != "cuda" or name in arguments.without or not all(map(is_installed, variant.requires)):
            continue
        tunables = Point({each.name: each.default for each in variant.tunables})
        program = variant.make(problem, tunables) if variant.kind == "kernel" else None
        runnables[name] = session.prepare(variant, problem, tunables, program, source_text(family, variant))

    for runnable in runnables.values():
        session.run(runnable, WARM_UP)
    records = get_records()
    for name, runnable in runnables.items():
        stream.synchronize()
        records.clear()
        phases = runnable.launch_phases
        events = [_read(timer, runnable) for _ in range(READINGS if phases == 1 else READINGS_OVER_PHASES)]
        stream.synchronize()
        spans = _spans(records.read(), OWN_PREFIX)
        if len(spans) == phases * len(events):
            cupti = np.reshape(spans, (len(events), phases)).mean(axis=1)
            clocks = {"events": events, "cupti": cupti, "apart": events - cupti}
            found[name] = {clock: float(np.median(readings)) for clock, readings in clocks.items()}
    return {"median_ns": found}


def _read(timer: Any, runnable: Any) -> float:
    """Return one reading by events, as a sweep takes it."""
    from cuprof.backends.cuda.timing import Work

    work = Work(runnable.enqueue, calls_host=runnable.calls_host, blocking=runnable.holds_back)
    if runnable.launch_phases == 1:
        return float(timer.cold(work)().duration_ns)
    return float(timer.cold_over_phases(lambda: work, runnable.launches)().duration_ns)


def _spans(records: list[Any], own: str) -> list[float]:
    """Return, of each frame, the time from its first kernel's begin to its last one's end; a flush precedes each.

    Args:
        own: how the names of cuprof's kernels begin, which are around every frame.
    """
    spans = []
    for is_own, kernels in groupby(records, lambda each: each.name.startswith(own)):
        if not is_own:
            inside = list(kernels)
            spans.append(float(max(one.end_ns for one in inside) - min(one.start_ns for one in inside)))
    return spans


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", type=Path, required=True)
    parser.add_argument("--n", type=int, required=True)
    parser.add_argument("--without", action="append", default=[])
    sys.exit(answer(work, parser))
