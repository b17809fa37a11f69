"""The OpenCL back end on whatever device is here: PoCL on a processor is enough."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from cuprof.backends.buffers import GUARD_BYTES
from cuprof.backends.contract import Frame, Reading, ReadingOptions
from cuprof.backends.opencl import backend as backend_module
from cuprof.backends.opencl.backend import OpenClBackend
from cuprof.backends.opencl.presence import find_devices
from cuprof.config.model import MeasureConfig
from cuprof.core.errors import BuildError, CuprofError, LaunchError, MissingDependencyError
from cuprof.core.records import Measure
from cuprof.families import Array, Fill, Launch, Point, Program, Signature, Variant
from cuprof.worker.sampler import Sampler, Subject

SOURCE = """
kernel void add(global const float* x, global float* y, float term, int count) {
    const int i = get_global_id(0);
    if (i < count) y[i] = x[i] + term;
}
kernel void reverse(global float* y) {
    local float tile[64];
    tile[get_local_id(0)] = y[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = tile[63 - get_local_id(0)] * FACTOR;
}
kernel void touch(global uchar* y, int at) { y[at] ^= 1; }
"""
COUNT = 1000
SIGNATURE = Signature({"x": Array((COUNT,), "float32")}, {"y": Array((COUNT,), "float32")})
INPUTS = {"x": np.arange(COUNT, dtype=np.float32)}
DEFINES = {"FACTOR": "2.0f"}
LOOKS = 2000
ADD = Launch("add", (16,), (64,), ("x", "y", 1.5, COUNT))


@pytest.fixture(scope="module")
def backend() -> OpenClBackend:
    try:
        return OpenClBackend()
    except MissingDependencyError as error:
        pytest.skip(str(error))


@pytest.fixture
def session(backend: OpenClBackend) -> Iterator[object]:
    opened = backend.open(SIGNATURE, INPUTS, ReadingOptions())
    yield opened
    opened.close()


def prepare(session: object, *steps: Launch | Fill, text: str = SOURCE, **parts: object) -> object:
    variant = Variant("sample", "opencl", "kernel", lambda problem, tune: None, "", source="sample.cl")
    program = Program(steps, **{"defines": DEFINES, **parts})
    return session.prepare(variant, Point(), Point(), program, text)


def execute(session: object, runnable: object) -> np.ndarray:
    session.poison(runnable)
    session.run(runnable)
    return session.fetch(runnable)["y"]


def test_platform_and_driver_identify_the_device(backend: OpenClBackend) -> None:
    facts = backend.facts()
    assert set(facts.identity) == {"name", "platform", "version", "driver", "compute_units"}
    assert facts.details["type"] in ("GPU", "CPU", "accelerator", "other")


def test_an_nvidia_device_has_the_uuid_that_nvml_tells_for_its_pci_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "find_uuid", lambda *address: f"uuid of {address}")
    backend = object.__new__(OpenClBackend)
    handle = SimpleNamespace(pci_domain_id_nv=0, pci_bus_id_nv=0xC4, pci_slot_id_nv=0x20)
    backend.cl, backend.handle, backend.is_nvidia = SimpleNamespace(Error=ValueError), handle, True
    assert backend._uuid() == "uuid of (0, 196, 4)"
    backend.is_nvidia = False
    assert backend._uuid() == ""
    backend.is_nvidia, backend.handle = True, SimpleNamespace()  # an old driver does not know the question
    assert backend._uuid() == ""


def test_gpus_come_before_processors() -> None:
    try:
        kinds = ["CPU" in str(device.type) for device in find_devices()]
    except MissingDependencyError as error:
        pytest.skip(str(error))
    assert kinds == sorted(kinds)


def test_a_program_runs_with_defines_scalars_and_two_launches(session: object) -> None:
    reverse = Launch("reverse", (15,), (64,), ("y",))
    y = execute(session, prepare(session, ADD, reverse))
    expected = (INPUTS["x"][:960] + 1.5).reshape(15, 64)[:, ::-1].ravel() * 2
    np.testing.assert_array_equal(y[:960], expected)
    np.testing.assert_array_equal(y[960:], INPUTS["x"][960:] + 1.5)


def test_grid_is_in_groups_and_missing_dimensions_are_one(session: object) -> None:
    y = execute(session, prepare(session, Launch("add", (4, 4), (64,), ("x", "y", 0.5, COUNT))))
    np.testing.assert_array_equal(y[:256], INPUTS["x"][:256] + 0.5)
    assert np.isnan(y[256:]).all(), "a grid of 4 × 4 groups has 256 work-items in its first dimension"


def test_fill_sets_bytes_in_order_with_the_launches(session: object) -> None:
    y = execute(session, prepare(session, ADD, Fill("y", 0x40)))
    assert (y.view(np.uint8) == 0x40).all()


@pytest.mark.parametrize(("array", "size"), [("x", 4 * COUNT), ("y", 4 * COUNT), ("s", 1024)])
@pytest.mark.parametrize("distance", [-GUARD_BYTES, -1, 0, 63, GUARD_BYTES - 1])
def test_a_byte_outside_a_buffer_is_noticed_and_mended(
    backend: OpenClBackend, array: str, size: int, distance: int
) -> None:
    opened = backend.open(SIGNATURE, INPUTS, ReadingOptions(), 1024)
    place = distance + (size if distance >= 0 else 0)
    touch = Launch("touch", (1,), (1,), (array, place))
    runnable = prepare(opened, touch, scratch={"s": Array((1024,), "int8")})
    opened.poison(runnable)
    assert opened.overrun_arrays() == ()
    opened.run(runnable)
    assert opened.overrun_arrays() == ({"x": "input x", "y": "output y", "s": "scratch"}[array],)
    assert opened.damaged_inputs() == ()
    opened.restore_inputs()
    assert opened.overrun_arrays() == ()
    opened.close()


def test_scratch_buffers_live_as_long_as_the_runnable_and_are_poisoned(session: object) -> None:
    scratch = {"a": Array((COUNT,), "float32"), "b": Array((COUNT + 3,), "float32")}
    steps = (
        Launch("add", (16,), (64,), ("x", "b", 1.0, COUNT)),
        Launch("add", (16,), (64,), ("b", "a", 1.0, COUNT)),
        Launch("add", (16,), (64,), ("a", "y", 1.0, COUNT)),
    )
    runnable = prepare(session, *steps, scratch=scratch)
    small = prepare(session, ADD)
    gc.collect()
    np.testing.assert_array_equal(execute(session, runnable), INPUTS["x"] + 3)
    np.testing.assert_array_equal(execute(session, small), INPUTS["x"] + 1.5)
    reads_scratch = prepare(session, Launch("add", (16,), (64,), ("a", "y", 0.0, COUNT)), scratch=scratch)
    assert np.isnan(execute(session, reads_scratch)).all()


def test_kernel_time_grows_with_the_work(backend: OpenClBackend) -> None:
    count = 1 << 22
    signature = Signature({"x": Array((count,), "float32")}, {"y": Array((count,), "float32")})
    opened = backend.open(signature, {"x": np.ones(count, np.float32)}, ReadingOptions())
    little = prepare(opened, Launch("add", (16,), (64,), ("x", "y", 1.0, 1000)))
    much = prepare(opened, Launch("add", (count // 64,), (64,), ("x", "y", 1.0, count)))
    for runnable in (little, much):
        opened.run(runnable)
    read = [partial(lambda each: opened.begin(each, Measure.COLD)().duration_ns, each) for each in (little, much)]
    shortest = [min(take() for _ in range(5)) for take in read]
    for _ in range(LOOKS):  # others who use the host add to times, and take nothing away
        if shortest[1] > 5 * shortest[0]:
            break
        shortest[0] = min(shortest[0], read[0]())
    opened.close()
    assert shortest[1] > 5 * shortest[0]


def test_a_refused_source_carries_the_compilers_log(session: object) -> None:
    with pytest.raises(BuildError, match=r"refused sample\.cl: .*error") as caught:
        prepare(session, ADD, text="kernel void add() { undeclared = 1; }")
    assert "undeclared" in caught.value.log
    assert "tempfile_" not in str(caught.value)


def test_warnings_of_the_compiler_are_no_failure_and_are_kept(session: object) -> None:
    runnable = prepare(session, ADD, text="#warning look here\n" + SOURCE)
    assert "look here" in runnable.build.log
    assert runnable.build.build_ns > 0


@pytest.mark.parametrize(("measure", "several"), [(Measure.COLD, False), (Measure.HOT, True), (Measure.TOTAL, False)])
def test_only_hot_samples_are_batches(
    session: object, monkeypatch: pytest.MonkeyPatch, measure: Measure, several: bool
) -> None:
    config = MeasureConfig(target=0.5, min_samples=3, max_samples=5, warmup=1)
    sampler = Sampler(session, config, "m", np.random.default_rng(1), lambda key: None, settle_ns=0.0)
    begin = session.begin

    def take_short(*given: object) -> Frame:
        """Execute, and tell of 10 µs: on a busy host it may be so much that one is enough."""
        begin(*given)()
        return lambda: Reading(1e4)

    monkeypatch.setattr(session, "begin", take_short)
    ((_, timing),) = sampler.sample([Subject(0, prepare(session, ADD))], measure)
    assert (timing.details["batch"] > 1) is several


def test_local_memory_is_reported(session: object) -> None:
    assert prepare(session, Launch("reverse", (15,), (64,), ("y",))).build.shared_bytes >= 256


@pytest.mark.parametrize(
    ("step", "parts", "message"),
    [
        (Launch("missing", (1,), (1,), ()), {}, "no kernel missing; there are add, reverse"),
        (Launch("add", (1,), (1 << 20,), ADD.args), {}, "work-items a group 1,048,576 > "),
        (Launch("add", (1,), (64,), ADD.args, shared_bytes=64), {}, "`shared_bytes` is for CUDA"),
        (ADD, {"constants": {"c": "x"}}, "`constants` are for CUDA"),
        (Launch("add", (1,), (64,), ("x", "y")), {}, r"add takes 4 arguments \(.*\), and is given 2"),
        (
            Launch("add", (1,), (64,), ("x", "y", "y", "y")),
            {},
            "declares argument 3 as float term, and is given the buffer",
        ),
    ],
)
def test_what_cannot_be_launched_is_refused_with_the_reason(
    session: object, step: Launch, parts: dict[str, object], message: str
) -> None:
    with pytest.raises(LaunchError, match=message):
        prepare(session, step, **parts)


def test_a_source_without_any_kernel_is_refused_in_a_whole_sentence(session: object) -> None:
    with pytest.raises(LaunchError, match=r"the program has no kernel add; there are none$"):
        prepare(session, ADD, text="")


def test_library_calls_are_refused(session: object) -> None:
    variant = Variant("lib", "opencl", "library", lambda *_: None, "")
    with pytest.raises(LaunchError, match="library calls run on the back ends cuda and cpu"):
        session.prepare(variant, Point(), Point(), None)


def test_a_device_that_is_not_there_is_refused_with_the_numbers(backend: OpenClBackend) -> None:
    with pytest.raises(CuprofError, match=r"device\.opencl=99: there are \d+ OpenCL devices, numbered from 0"):
        OpenClBackend(99)


def test_without_any_device_the_remedy_is_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "find_devices", list)
    with pytest.raises(MissingDependencyError, match=r"an OpenCL device is not available.*pocl-opencl-icd"):
        OpenClBackend()


def test_without_pyopencl_the_remedy_is_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'cuprof\[opencl\]'"):
        OpenClBackend()
