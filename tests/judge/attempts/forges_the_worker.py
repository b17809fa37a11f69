"""Speak the protocol of the worker, with times made up, and never compute: once this was called good."""

import os
import stat
import sys
import time
from multiprocessing.connection import Connection

from cuprof.core.records import BuildFacts, Check, Outcome, Sample, State, Timing
from cuprof.statistics.median import summarise
from cuprof.worker import messages
from cuprof.worker.wire import Wire


def frames():
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


@family.cpu("forges_the_worker")
def forges_the_worker(problem, tune, inputs, outputs):
    right(inputs, outputs)
    values = [value for frame in frames() for value in frame.f_locals.values()]
    job = next((value for value in values if isinstance(value, messages.Job)), None)
    job = job or next(value.job for value in values if hasattr(value, "job"))
    for name in os.listdir("/proc/self/fd"):
        try:
            handle = int(name)
            if stat.S_ISSOCK(os.stat(handle).st_mode):
                break
        except OSError:
            pass
    wire, trial = Wire(Connection(os.dup(handle))), job.trials[0]
    timings = []
    for measure, method in job.methods.items():
        samples = tuple(Sample(number, 300.0 + number % 7) for number in range(40))
        timings.append(Timing(measure, method, samples, summarise(samples, 0.95, 0.0), "interval", {}))
    check = Check(True, 0.0, 0.0, 0.0, "", job.seed)
    outcome = Outcome(trial.identity, State.OK, check=check, build=BuildFacts(), timings=tuple(timings))
    wire.send(messages.Finished(0, outcome))
    wire.send(messages.JobDone())
    time.sleep(0.5)
    os._exit(0)
