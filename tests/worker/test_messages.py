"""Messages between engine and worker survive the pipe."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest

from cuprof.config.model import MeasureConfig
from cuprof.family import Point
from cuprof.records import (
    BuildFacts,
    Calibration,
    Check,
    DeviceFacts,
    Measure,
    Outcome,
    Sample,
    State,
    Timing,
    Unavailable,
)
from cuprof.statistics.median import summarise
from cuprof.worker import messages
from cuprof.worker.messages import (
    Calibrate,
    Calibrated,
    Describe,
    Described,
    Finished,
    Job,
    JobDone,
    TrialJob,
    WorkerSettings,
)

SAMPLES = tuple(Sample(number, 1000.0 + number, 1980.0, "" if number else "slow") for number in range(9))
TIMING = Timing(Measure.COLD, "abc", SAMPLES, summarise(SAMPLES), "interval", {"batch": 1})
OUTCOME = Outcome(
    "0" * 32,
    State.WRONG_RESULT,
    "y[0] = nan",
    "a log with ünicode",
    "check",
    Check(False, float("inf"), np.inf, 2.0, "y[0] = nan", 3),
    BuildFacts(32, 1024, 0, True, 10, "log"),
    (TIMING,),
    1.5,
    7,
)
MESSAGES = (
    WorkerSettings(1, 0, 4),
    Describe(("cuda", "cpu")),
    Described({"cuda": Unavailable("no GPU", "buy one"), "cpu": DeviceFacts("cpu", 0, "it", details={"cores": 2})}),
    Calibrate("cpu"),
    Calibrated(Calibration("cpu", 1e10, None, {"read_bytes": 5})),
    Calibrated(None, "why"),
    TrialJob("1" * 32, "plain", Point(block=64), "text"),
    Job(Path("/a b/ü"), "cuda", Point(n=2**24, dtype="float32"), (), 5, MeasureConfig(), {Measure.HOT: "x"}),
    Finished(3, OUTCOME, True),
    JobDone("fault", "log"),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: object) -> None:
    arrived = pickle.loads(pickle.dumps(message))
    assert arrived == message
    assert type(arrived) is type(message)


def test_every_message_is_tested() -> None:
    known = {
        value for value in vars(messages).values() if is_dataclass(value) and value.__module__ == messages.__name__
    }
    assert {type(message) for message in MESSAGES} == known


def test_messages_cannot_change_on_their_way() -> None:
    for message in MESSAGES:
        for field in fields(message):
            with pytest.raises(AttributeError):
                setattr(message, field.name, None)
