"""The CPU back end: buffers, poison, timing, facts."""

from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuprof.backends import buffers
from cuprof.backends.contract import ReadingOptions
from cuprof.backends.cpu import backend, processor
from cuprof.backends.cpu.backend import CpuBackend, CpuSession
from cuprof.backends.cpu.processor import DEFAULT_CACHE_BYTES, Caches, cache_bytes
from cuprof.core.errors import LaunchError
from cuprof.core.processes import count_cores
from cuprof.core.records import Measure
from cuprof.families import Array, Invoke, Point, Program, Signature, Variant
from cuprof.sandbox import cgroup

SIGNATURE = Signature({"x": Array((4,), "float32")}, {"y": Array((4,), "float32")})
DTYPES = ("float16", "float32", "float64", "complex64", "int8", "int32", "int64", "uint8", "bool")


def open_session(signature: Signature = SIGNATURE, **options: Any) -> CpuSession:
    inputs = {
        name: np.arange(spec.size, dtype=spec.dtype).reshape(spec.shape) for name, spec in signature.inputs.items()
    }
    return CpuBackend(1).open(signature, inputs, ReadingOptions(**options))


def prepare(session: CpuSession, make: Any, requires: tuple[str, ...] = ()) -> Any:
    return session.prepare(Variant("v", "cpu", "cpu", make, "", requires=requires), Point(n=4), Point(), None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0,), (2, 0)])
def test_poison_fills_every_byte_of_every_output(dtype: str, shape: tuple[int, ...]) -> None:
    session = open_session(Signature({}, {"y": Array(shape, dtype), "z": Array((2,), dtype)}))
    for array in session.outputs.values():
        array[...] = 0
    session.poison(prepare(session, lambda *_: None))
    for array in session.outputs.values():
        assert array.tobytes() == b"\xff" * array.nbytes
        if np.dtype(dtype).kind in "fc":
            assert np.isnan(array).all()


def test_a_variant_cannot_put_arrays_of_its_own_in_place() -> None:
    session = open_session()

    def rebind(problem: Point, tune: Point, inputs: Any, outputs: Any) -> Any:
        def run() -> None:
            outputs["y"] = inputs["x"]

        return run

    with pytest.raises(TypeError, match="is replaced by another array"):
        session.run(prepare(session, rebind))


@pytest.mark.parametrize(("batch", "measure"), [(1, Measure.COLD), (1, Measure.HOT), (7, Measure.HOT)])
def test_a_batch_runs_so_often_and_counts_an_executions_share(
    monkeypatch: pytest.MonkeyPatch, batch: int, measure: Measure
) -> None:
    clock = SimpleNamespace(now=0)
    monkeypatch.setattr(backend, "perf_counter_ns", lambda: clock.now)
    session = open_session(flush="none")

    def take() -> None:
        clock.now += 1000

    runnable = prepare(session, lambda *_: take)
    reading = session.begin(runnable, measure, batch)()
    assert clock.now == 1000 * batch
    assert (reading.duration_ns, reading.sm_clock_mhz, reading.suspect) == (1000.0, None, "")


@pytest.mark.parametrize(
    ("flush", "measure", "expected"),
    [
        ("clean", Measure.COLD, "read"), ("dirty", Measure.COLD, "written"), ("none", Measure.COLD, "untouched"),
        ("clean", Measure.HOT, "untouched"), ("dirty", Measure.HOT, "untouched"),
    ],
)  # fmt: skip
def test_only_cold_readings_flush_and_as_asked(
    monkeypatch: pytest.MonkeyPatch, flush: str, measure: Measure, expected: str
) -> None:
    session = open_session(flush=flush)
    log: list[str] = []
    data = SimpleNamespace(max=lambda **_: log.append("read"), fill=lambda value: log.append("written"))
    session.backend.caches.__dict__["_parts"] = [data, data]
    runnable = prepare(session, lambda *_: lambda: log.append("run"))
    session.begin(runnable, measure)()
    assert log == (["run"] if expected == "untouched" else [expected, expected, "run"])


def test_the_flush_reads_data_of_twice_the_last_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "cache_bytes", lambda: 1 << 16)
    made = Caches()
    made.flush("clean")
    assert sum(part.nbytes for part in made._parts) == 1 << 17
    assert len(made._parts) == min(count_cores(), processor.MOST_THREADS)
    assert made._parts is made._parts


def test_a_thread_that_flushes_and_fails_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Caches()
    made.__dict__["_parts"] = [np.ones(8), np.empty(0)]  # of nothing there is no maximum
    with pytest.raises(ValueError, match="zero-size"):
        made.flush("clean")


def test_threads_and_versions_identify_the_device() -> None:
    facts = CpuBackend(1).facts()
    assert set(facts.identity) == {"name", "threads", "python", "numpy"}
    assert facts.identity["threads"] == "1"
    assert CpuBackend().threads >= 1


def test_no_more_threads_are_said_to_be_used_than_there_are() -> None:
    assert CpuBackend(100_000).facts().identity == CpuBackend().facts().identity


def test_the_cache_is_the_largest_that_linux_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for index, size in enumerate(("48K", "2048K", "105M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    monkeypatch.setattr(processor, "Path", lambda _: tmp_path)
    assert cache_bytes() == 105 << 20
    monkeypatch.setattr(processor, "Path", lambda _: tmp_path / "nowhere")
    assert cache_bytes() == DEFAULT_CACHE_BYTES


def addresses(session: CpuSession) -> dict[str, np.ndarray]:
    return {f"{kind} {name}": array for kind, group in (("input", session.inputs), ("output", session.outputs))
            for name, array in group.items()}  # fmt: skip


@pytest.mark.parametrize("byte", [0x00, 0xFF, 0x5A])
def test_no_fill_passes_for_a_guard(byte: int) -> None:
    session = open_session()
    ctypes.memset(session.outputs["y"].ctypes.data + 16, byte, 4)
    assert session.overrun_arrays() == ("output y",)


def test_all_that_is_an_arrays_own_may_be_written() -> None:
    session = open_session(
        Signature({"x": Array((0,), "int8")}, {"y": Array((3, 5), "float64"), "z": Array((), "int8")})
    )
    runnable = prepare(session, lambda *_: None)
    for byte in (0xFF, 0x5A, 0x00):
        session.poison(runnable, byte)
        assert session.overrun_arrays() == ()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0,), (2, 0), (1 << 20,)])
def test_arrays_are_aligned_contiguous_and_as_declared(dtype: str, shape: tuple[int, ...]) -> None:
    signature = Signature({"x": Array(shape, dtype)}, {"y": Array(shape, dtype)})
    session = CpuBackend(1).open(signature, {"x": np.ones(shape, dtype)}, ReadingOptions())
    assert session.inputs["x"].all()
    for array in addresses(session).values():
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.size == 0 or array.ctypes.data % 64 == 0


def test_closing_lets_go_of_the_buffers() -> None:
    session = open_session()
    session.close()
    assert (session.inputs, session.outputs) == ({}, {})


def test_the_calibration_is_as_large_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "available_bytes", lambda: 80 << 20)
    found = CpuBackend().calibrate()
    assert found.details["read_bytes"] == 10 << 20
    assert found.read_bandwidth is not None
    assert 1e6 < found.read_bandwidth < 1e13  # bytes a second, however busy the host is
    monkeypatch.setattr(backend, "available_bytes", lambda: 20 << 20)
    with pytest.raises(MemoryError, match="too little memory is free to measure bandwidth"):
        CpuBackend().calibrate()


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "1000", "a/memory.current": "400"}, 600),
        ("0::/\n", {"memory.max": "500", "memory.current": "600"}, 0),
        (
            "5:cpu,memory:/c\n4:pids:/\n0::/\n",
            {"memory/c/memory.limit_in_bytes": "900", "memory/c/memory.usage_in_bytes": "100"},
            800,
        ),
    ],
)
def test_a_containers_memory_is_what_its_control_groups_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], expected: int
) -> None:
    (tmp_path / "cgroup").write_text(own)
    monkeypatch.setattr(cgroup, "OWN", tmp_path / "cgroup")
    monkeypatch.setattr(cgroup, "ROOT", tmp_path / "sys")
    for name, text in files.items():
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).write_text(f"{text}\n")
    assert buffers.available_bytes() == expected


def test_elements_are_read_before_the_copying_so_that_nobody_writes_just_ahead_of_it() -> None:
    size = 1 << 12
    session = open_session(Signature({}, {"y": Array((size,), "float32")}))
    runnable = prepare(session, lambda *_: lambda: None)
    session.run(runnable)
    mine = session.outputs["y"]

    class Late(np.ndarray):
        def copy(self, *_: Any) -> Any:
            mine.fill(2)  # a thread is quicker than the copying
            return mine.copy()

    mine.fill(1)
    session.outputs["y"] = mine.view(Late)
    found = session.fetch(runnable)["y"]
    late = int((found == 1).sum())
    assert backend.EARLY - 5 <= late <= backend.EARLY
    assert int((found == 2).sum()) == size - late


def test_of_a_result_without_elements_nothing_is_read() -> None:
    session = open_session(Signature({}, {"y": Array((0, 3), "float32"), "z": Array((), "float32")}))
    runnable = prepare(session, lambda *_: lambda: None)
    session.outputs["z"][...] = 5
    assert {name: array.tolist() for name, array in session.fetch(runnable).items()} == {"y": [], "z": 5.0}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("x", "y", 4), ""),
        (("x", "y"), "run takes 3 arguments (x, y, n), and is given 2"),
        (("x", 4, "y"), "run declares argument 2 as int *y, and is given the number int32 4; name a buffer"),
        (("x", "y", 4.0), "run declares argument 3 as int n, and is given float32 4.0; give it as np.int32"),
    ],
)
def test_a_call_that_does_not_fit_its_declaration_is_refused_before_it_runs(
    arguments: tuple[Any, ...], said: str
) -> None:
    signature = Signature({"x": Array((4,), "int32")}, {"y": Array((4,), "int32")})
    session = open_session(signature)
    variant = Variant("c", "cpu", "kernel", lambda *_: None, "", source="a.c", compiler="gcc")
    text = "int run(const int *x, int *y, int n) { for (int i = 0; i < n; i++) y[i] = x[i]; return 0; }"
    program = Program((Invoke("run", arguments),))
    if said:
        with pytest.raises(LaunchError, match=re.escape(said)):
            session.prepare(variant, Point(), Point(), program, text)
    else:
        session.prepare(variant, Point(), Point(), program, text).enqueue()
        assert session.outputs["y"].tolist() == session.inputs["x"].tolist()
    session.close()
