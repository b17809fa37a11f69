"""Messages between engine and worker survive the pipe."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest

from cuprof import family
from cuprof.config.model import MeasureConfig
from cuprof.core.records import (
    BuildFacts,
    Calibration,
    Check,
    DeviceFacts,
    Measure,
    Outcome,
    Sample,
    State,
    Timing,
    Trial,
    Unavailable,
)
from cuprof.families import Point
from cuprof.families.candidate import Extension
from cuprof.families.origin import Folder, Snapshot
from cuprof.interop.origins import Definition
from cuprof.plan.model import Exclusion
from cuprof.statistics.median import summarise
from cuprof.worker import messages
from cuprof.worker.messages import (
    KINDS,
    Build,
    Built,
    Calibrate,
    Describe,
    Finished,
    Job,
    JobDone,
    JobTrial,
    Load,
    Open,
    Outlined,
    Prepare,
    Probe,
    Probed,
    WorkerSettings,
)
from cuprof.worker.wire import NonsenseError, decode, encode

SAMPLES = tuple(Sample(number, 1000.0 + number, 1980.0, "" if number else "slow") for number in range(9))
TIMING = Timing(Measure.COLD, "abc", SAMPLES, summarise(SAMPLES), "interval", {"batch": 1})
OUTCOME = Outcome(
    "0" * 32,
    State.WRONG_RESULT,
    "y[0] = nan",
    "a log with ünicode, \udc80 and \x00",
    "check",
    Check(False, float("inf"), np.inf, 2.0, "y[0] = nan", 3),
    BuildFacts(32, 1024, 0, True, 10, "log"),
    (TIMING,),
    1.5,
    7,
)
MEMBER = JobTrial("1" * 32, "plain", Point(block=64, big=2**70, share=0.5, on=True), "text")
DEVICE = DeviceFacts("cpu", 0, "it", details={"cores": 2})
EXTENSION = Extension("mine.py", Path("/b"), only="v")
SHOWN = family.Sample(
    family.Signature({"x": family.Array((2, 3), "float32")}, {"y": family.Array((), "int64")}),
    {"n": family.Scalar(3, "int32"), "a": family.Scalar(0.5), "is_on": family.Scalar(True)},
    ("x", "n", "a", "is_on"),
    "torch",
    "cuda",
)
MESSAGES = (
    WorkerSettings({"cuda": 1, "cpu": 4}, 2),
    Open(("cuda",)),
    Describe("cuda"),
    DEVICE,
    Unavailable("no GPU", "buy one"),
    Calibrate("cpu"),
    Calibration("cpu", 1e10, None, {"read_bytes": 5}),
    Job(
        Folder(Path("/a b/ü")),
        "cuda",
        Point(n=2**24, dtype="float32"),
        (MEMBER,),
        2**70,
        MeasureConfig(),
        {Measure.HOT: "x"},
    ),
    Outlined(
        (Trial("0" * 32, "f", "v", "cpu", "cpu", Point(n=1), Point(), "f/v", DEVICE, "text"),),
        (Exclusion("f/v", "why", problem=Point(n=2)),),
    ),
    Load(Definition(Path("/a b"))),
    Probe(Snapshot(Path("/a b/mine.py"), ("/s",), (Path("/f.py"),)), (Point(n=8), Point(kind="rows"))),
    Probed((SHOWN,), "fault"),
    Build(Job(Folder(Path("/a")), "cpu", Point(n=1), (MEMBER,), 1), 2.0),
    Built(("0" * 32,)),
    Prepare(Job(Folder(Path("/a")), "cpu", Point(n=1), (MEMBER,), 1)),
    Finished(3, OUTCOME, True),
    JobDone("fault", "log"),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: object) -> None:
    arrived = decode(encode(message))
    assert arrived == message
    assert type(arrived) is type(message)


def test_every_message_is_tested() -> None:
    known = {
        value for value in vars(messages).values() if is_dataclass(value) and value.__module__ == messages.__name__
    }
    records = {DeviceFacts, Unavailable, Calibration}
    assert {type(message) for message in MESSAGES} == set(KINDS.values()) == (known - {JobTrial}) | records


def test_messages_cannot_change_on_their_way() -> None:
    for message in MESSAGES:
        for field in fields(message):
            with pytest.raises(AttributeError):
                setattr(message, field.name, None)


def test_numbers_of_numpy_arrive_as_plain_ones() -> None:
    outcome = Outcome("0" * 32, State.OK, duration_ns=np.int64(7), started_at=np.float32(0.5))  # type: ignore[arg-type]
    arrived = decode(encode(Finished(np.int32(2), outcome))).outcome  # type: ignore[arg-type]
    assert (type(arrived.duration_ns), type(arrived.started_at)) == (int, float)
    details = {"a": np.arange(3), "nan": float("nan"), "rows": ({"b": -np.inf},), 3: "three"}
    arrived = decode(encode(Calibration("cpu", details=details))).details
    assert arrived["a"] == [0, 1, 2]
    assert arrived["nan"] != arrived["nan"]
    assert arrived["rows"] == [{"b": -np.inf}]
    assert arrived["3"] == "three"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff", b"hello", b"[]", b"7", b'["Job"]', b'["Job", {}]', b'["Path", "/etc"]', b'[["Job"], {}]',
        b'["JobDone", {"fault": 3}]', b'["Finished", {"index": "1", "outcome": null}]', b"[" * 200_000,
        b'["Finished", {"index": 1, "outcome": {"identity": "a", "state": "splendid"}}]',
        pickle.dumps(JobDone()),
    ],
)  # fmt: skip
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(NonsenseError):
        decode(data)


def test_what_a_message_cannot_hold_is_an_error_of_the_sender() -> None:
    with pytest.raises(NotImplementedError, match="cannot hold a object"):
        encode(Calibration("cpu", details={"a": object()}))
