"""The CUDA back end on a device: buffers, poison, constants, timing against kernels of known duration."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuprof.backends.buffers import GUARD_BYTES
from cuprof.backends.contract import NOT_COLD, Draw, ReadingOptions, Tally
from cuprof.backends.cuda.driver import call, load_driver
from cuprof.backends.cuda.timing import LAUNCH_PHASES, Work
from cuprof.builds import BuildPool
from cuprof.core.errors import BuildError, DeviceMemoryError, LaunchError
from cuprof.core.records import Measure
from cuprof.families import Array, Fill, Launch, Point, Program, Signature, Tolerance, Variant

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

N = 1024
SIGNATURE = Signature({"x": Array((N,), "float32")}, {"y": Array((N,), "float32")})
SOURCE = """
#define I (blockIdx.x * blockDim.x + threadIdx.x)
__constant__ float factors[4];
extern "C" __global__ void scale(const float* x, float* y, int n, float factor) { if (I < n) y[I] = factor * x[I]; }
extern "C" __global__ void by_constants(const float* x, float* y, int n) { if (I < n) y[I] = factors[I & 3] * x[I]; }
extern "C" __global__ void as_it_is(const float* s, float* y, int n) { if (I < n) y[I] = s[I]; }
extern "C" __global__ void through_shared(const float* x, float* y, int n) {
    extern __shared__ float tile[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) tile[16 * 1024 + i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = tile[16 * 1024 + n - 1 - i];
}
extern "C" __global__ void many_types(float* y, int n, float f, double d, long long l, unsigned char c) {
    if (I == 0) { y[0] = f; y[1] = (float)d; y[2] = (float)l; y[3] = (float)c; y[4] = (float)n; }
}
extern "C" __global__ void touch(unsigned char* y, long long at) { y[at] ^= 1; }
extern "C" __global__ void more(float* y, int n) { if (I < n) y[I] += 1.0f; }
extern "C" __global__ void read(const float4* x, float* y, int n) {
    float sum = 0;
    for (int i = I; i < n / 4; i += gridDim.x * blockDim.x) { float4 v = __ldg(x + i); sum += v.x + v.y + v.z + v.w; }
    if (sum == 12345.678f) y[0] = sum;
}
"""


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from cuprof.backends.cuda.backend import CudaBackend

    return CudaBackend(0, BuildPool(tmp_path_factory.mktemp("cubin")))


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    return {"x": np.arange(1, N + 1, dtype=np.float32)}


@pytest.fixture
def session(backend: Any, inputs: dict[str, np.ndarray]) -> Iterator[Any]:
    opened = backend.open(SIGNATURE, inputs, ReadingOptions(), 1 << 16)
    yield opened
    opened.close()


def prepare(session: Any, *steps: Launch | Fill, text: str = SOURCE, **details: Any) -> Any:
    variant = Variant("v", "cuda", "kernel", lambda *_: None, "", "v.cu")
    return session.prepare(variant, Point(n=N), Point(), Program(steps, **details), text)


def launch(kernel: str, *args: Any, **details: Any) -> Launch:
    return Launch(kernel, (N // 128,), (128,), args, **details)


def result(session: Any, runnable: Any) -> np.ndarray:
    session.poison(runnable)
    session.run(runnable)
    found: np.ndarray = session.fetch(runnable)["y"]
    return found


def test_a_kernel_computes_and_its_resources_are_known(session: Any, inputs: dict[str, np.ndarray]) -> None:
    runnable = prepare(session, launch("scale", "x", "y", N, 2.0))
    assert np.array_equal(result(session, runnable), 2 * inputs["x"])
    assert runnable.build.registers > 0
    assert runnable.build.shared_bytes == 0
    assert runnable.build.spill_bytes in (0, None)  # None where NVRTC answers from its own cache, without a log
    assert prepare(session, launch("scale", "x", "y", N, 3.0)).build.cached


def test_blocks_of_a_cooperative_launch_may_wait_for_one_another(session: Any, inputs: dict[str, np.ndarray]) -> None:
    text = """
#include <cooperative_groups.h>
extern "C" __global__ void turn_round(const float* x, float* s, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[i] = x[i];
    cooperative_groups::this_grid().sync();
    y[i] = s[n - 1 - i];
}
"""
    scratch = {"s": Array((N,), "float32")}
    together = launch("turn_round", "x", "s", "y", N, cooperative=True)
    runnable = prepare(session, together, text=text, scratch=scratch)
    for _ in range(20):
        assert np.array_equal(result(session, runnable), inputs["x"][::-1])
    assert session.begin(runnable, Measure.COLD)().duration_ns > 0
    many = Launch("turn_round", (1 << 20,), (128,), ("x", "s", "y", N), cooperative=True)
    with pytest.raises(LaunchError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        session.run(prepare(session, many, text=text, scratch=scratch))


def test_cudas_own_headers_serve_kernels_on_the_device(session: Any, inputs: dict[str, np.ndarray]) -> None:
    text = """
#include <cstdint>
#include <cub/block/block_reduce.cuh>
#include <cuda_fp16.h>
extern "C" __global__ void sums(const float* x, float* y, std::int32_t n) {
    typedef cub::BlockReduce<float, 128> Reduce;
    __shared__ typename Reduce::TempStorage kept;
    __shared__ float all;
    const float sum = Reduce(kept).Sum(x[blockIdx.x * 128 + threadIdx.x]);
    if (threadIdx.x == 0) all = __half2float(__float2half(1.0f)) * sum;
    __syncthreads();
    if (blockIdx.x * 128 + threadIdx.x < n) y[blockIdx.x * 128 + threadIdx.x] = all;
}
"""
    found = result(session, prepare(session, launch("sums", "x", "y", N), text=text))
    assert np.array_equal(found, np.repeat(inputs["x"].reshape(-1, 128).sum(axis=1), 128))


@pytest.mark.parametrize(("array", "size"), [("x", 4 * N), ("y", 4 * N), ("s", 1 << 16)])
@pytest.mark.parametrize("distance", [-GUARD_BYTES, -1, 0, 63, GUARD_BYTES - 1])
def test_a_byte_outside_an_array_is_noticed_and_mended(
    session: Any, inputs: dict[str, np.ndarray], array: str, size: int, distance: int
) -> None:
    place = distance + (size if distance >= 0 else 0)
    touch = Launch("touch", (1,), (1,), (array, np.int64(place)))
    runnable = prepare(session, touch, scratch={"s": Array((1 << 16,), "uint8")})
    session.poison(runnable)
    assert session.overrun_arrays() == ()
    session.run(runnable)
    assert session.overrun_arrays() == ({"x": "input x", "y": "output y", "s": "scratch"}[array],)
    assert session.damaged_inputs() == ()
    session.restore_inputs()
    assert session.overrun_arrays() == ()


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 5), (1001,)])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float64"])
def test_arrays_of_any_shape_lie_between_sound_guards(backend: Any, shape: tuple[int, ...], dtype: str) -> None:
    signature = Signature({"x": Array(shape, dtype)}, {"y": Array(shape, dtype), "z": Array((3,), "int8")})
    given = np.ones(shape, dtype)
    opened = backend.open(signature, {"x": given}, ReadingOptions())
    for array in (opened.inputs["x"], opened.outputs["y"]):
        assert (array.shape, array.dtype, array.data.ptr % 256) == (shape, np.dtype(dtype), 0)
    assert np.array_equal(opened.inputs["x"].get(), given)
    opened.poison(SimpleNamespace(setup=()))
    assert opened.overrun_arrays() == ()
    opened.close()


def test_repeating_executes_so_often_and_a_sample_of_several_launches_once_a_phase(session: Any) -> None:
    runnable = prepare(session, launch("more", "y", N), launch("more", "y", N))
    session.poison(runnable, 0)
    session.run(runnable, 5)
    assert np.array_equal(session.fetch(runnable)["y"], np.full(N, 10.0, np.float32))
    session.poison(runnable, 0)
    reading = session.begin(runnable, Measure.COLD, runnable.launch_phases)()
    assert reading.duration_ns > 0
    assert np.array_equal(session.fetch(runnable)["y"], np.full(N, 2.0 * LAUNCH_PHASES, np.float32))


def test_fill_sets_bytes_before_what_follows(session: Any) -> None:
    scratch = {"s": Array((N,), "float32")}
    zeroed = prepare(session, Fill("s"), launch("as_it_is", "s", "y", N), scratch=scratch)
    assert not result(session, zeroed).any()
    filled = prepare(session, Fill("s", 0x3F), launch("as_it_is", "s", "y", N), scratch=scratch)
    assert set(result(session, filled).view(np.uint32).tolist()) == {0x3F3F3F3F}
    assert zeroed.steps == 2


def test_a_result_may_end_in_scratch(session: Any, inputs: dict[str, np.ndarray]) -> None:
    scratch = {"other": Array((3,), "uint8"), "s": Array((2 * N,), "float32")}
    runnable = prepare(session, launch("scale", "x", "s", N, 5.0), scratch=scratch, results={"y": "s"})
    assert np.array_equal(result(session, runnable), 5 * inputs["x"])


def test_constants_are_filled_from_inputs(backend: Any) -> None:
    signature = Signature({"x": SIGNATURE.inputs["x"], "f": Array((4,), "float32")}, SIGNATURE.outputs)
    x, factors = np.ones(N, np.float32), np.array([1, 2, 3, 4], np.float32)
    opened = backend.open(signature, {"x": x, "f": factors}, ReadingOptions())
    runnable = prepare(opened, launch("by_constants", "x", "y", N), constants={"factors": "f"})
    assert np.array_equal(result(opened, runnable), np.tile(factors, N // 4))
    with pytest.raises(LaunchError, match=r"__constant__ factors holds 16 bytes, input x has 4096"):
        prepare(opened, launch("by_constants", "x", "y", N), constants={"factors": "x"})
    with pytest.raises(LaunchError, match=r"find __constant__ nothing of v\.cu"):
        prepare(opened, launch("by_constants", "x", "y", N), constants={"nothing": "f"})
    opened.close()


@pytest.mark.parametrize("measure", list(Measure))
def test_constants_are_those_of_the_set_that_is_drawn(backend: Any, measure: Measure) -> None:
    signature = Signature({"x": SIGNATURE.inputs["x"], "f": Array((4,), "float32")}, SIGNATURE.outputs)
    sets = [{"x": np.ones(N, np.float32), "f": np.float32(k) + np.arange(4, dtype=np.float32)} for k in (1, 7)]
    opened = backend.open(signature, sets[0], ReadingOptions())
    opened.stock(sets, [{"y": np.tile(each["f"], N // 4)} for each in sets])
    assert opened.stocked == 2
    runnable = prepare(opened, launch("by_constants", "x", "y", N), constants={"factors": "f"})
    tally = opened.expect(runnable, [Tolerance(), Tolerance()])
    for number in (1, 0, 0, 1):
        opened.begin(runnable, measure, 1, lambda number=number: Draw(number, 0, True))()
    assert tally() == Tally(4, 0)
    opened.close()


def test_dynamic_shared_memory_beyond_48_kib(session: Any, inputs: dict[str, np.ndarray]) -> None:
    step = Launch("through_shared", (1,), (128,), ("x", "y", N), shared_bytes=4 * (16 * 1024 + N))
    assert step.shared_bytes > 48 * 1024
    assert np.array_equal(result(session, prepare(session, step)), inputs["x"][::-1])


def test_scalars_of_every_type_arrive(session: Any) -> None:
    step = launch("many_types", "y", N, 0.5, np.float64(1 / 3), np.int64(2**40), np.uint8(200))
    expected = np.array([0.5, 1 / 3, 2**40, 200, N], np.float32)
    assert np.array_equal(result(session, prepare(session, step))[:5], expected)


def test_refusals_name_what_was_asked(session: Any) -> None:
    with pytest.raises(LaunchError, match=r"find kernel absent: v\.cu has no such kernel; there are scale"):
        prepare(session, launch("absent"))
    with pytest.raises(BuildError, match=r"v\.cu\(1\): error"):
        prepare(session, launch("k"), text="nonsense")


def test_buffers_larger_than_the_device_are_refused_and_the_next_ones_are_not(backend: Any, inputs: Any) -> None:
    with pytest.raises(DeviceMemoryError, match="out of device memory"):
        backend.open(SIGNATURE, inputs, ReadingOptions(), backend.facts().memory_bytes)
    backend.open(SIGNATURE, inputs, ReadingOptions()).close()


def spinner(backend: Any, duration_ns: int) -> Any:
    return backend.device.launch("spin", 1, 1, [np.uint64(duration_ns), 0])


def median_ns(read: Callable[[], Any], count: int = 41) -> float:
    readings = [read() for _ in range(count)]
    assert sum(bool(reading.suspect) for reading in readings) <= count // 4
    return statistics.median(reading.duration_ns for reading in readings if not reading.suspect)


@pytest.mark.parametrize("duration_ns", [1_000, 2_000, 5_000, 10_000, 50_000, 200_000, 1_000_000])
def test_a_kernel_of_known_duration_reads_as_long(backend: Any, duration_ns: int) -> None:
    spin, stream = spinner(backend, duration_ns), backend.device.stream.ptr
    found = median_ns(lambda: backend.device.timer.cold(Work(lambda: spin(stream)))())
    # What is around an execution counts as 0.35 µs, and events read at levels 0.16 µs apart.
    allowed = max(0.01 * duration_ns, 600.0)
    assert found == pytest.approx(duration_ns, abs=allowed)


def test_a_batch_of_known_duration_reads_one_executions_share(backend: Any) -> None:
    spin, stream = spinner(backend, 5_000), backend.device.stream.ptr
    found = median_ns(lambda: backend.device.timer.hot(Work(lambda: spin(stream)), 20)(), 11)
    assert 5_000 <= found <= 7_000  # a launch after the other costs about a microsecond of its own


def test_launch_latency_is_not_measured(backend: Any) -> None:
    spin, stream = spinner(backend, 2_000), backend.device.stream.ptr

    def slowly() -> None:
        spin(stream)
        for _ in range(1_000_000):  # for milliseconds, the host dawdles between two launches
            pass
        spin(stream)

    held = median_ns(lambda: backend.device.timer.cold(Work(slowly))())
    assert held <= 4_000 + 3_500  # the second launch costs what one after another does; dawdling alone takes 30 µs


def test_the_clock_is_read_beside_each_sample(backend: Any) -> None:
    spin, stream = spinner(backend, 2_000), backend.device.stream.ptr
    most = backend.facts().details["max_sm_clock_mhz"]
    for flush in ("clean", "dirty", "none"):
        readings = [backend.device.timer.cold(Work(lambda: spin(stream)), flush)() for _ in range(20)]
        assert 0.2 * most < statistics.median(reading.sm_clock_mhz for reading in readings) < 1.1 * most


def test_a_call_that_synchronises_costs_readings_and_no_deadlock(session: Any, backend: Any) -> None:
    runnable = prepare(session, launch("scale", "x", "y", N, 2.0))
    enqueue = runnable.enqueue

    def synchronising() -> None:
        enqueue()
        backend.device.stream.synchronize()

    runnable.enqueue = synchronising
    other = prepare(session, launch("scale", "x", "y", N, 3.0))
    first = session.begin(runnable, Measure.COLD)()
    assert "synchronises" in first.suspect
    assert not session.begin(other, Measure.COLD)().suspect
    assert session.begin(runnable, Measure.COLD)().suspect
    assert not runnable.holds_back
    assert not session.begin(runnable, Measure.COLD)().suspect
    assert other.holds_back


def test_hot_is_faster_than_cold_and_total_slower(backend: Any) -> None:
    n = 4 << 20
    signature = Signature({"x": Array((n,), "float32")}, {"y": Array((1,), "float32")})
    opened = backend.open(signature, {"x": np.zeros(n, np.float32)}, ReadingOptions())
    runnable = prepare(opened, Launch("read", (264,), (512,), ("x", "y", n)))
    hot = median_ns(lambda: opened.begin(runnable, Measure.HOT, 10)())
    cold = median_ns(lambda: opened.begin(runnable, Measure.COLD)())
    total = median_ns(lambda: opened.begin(runnable, Measure.TOTAL)(), 11)
    assert hot < 0.9 * cold
    assert total > 10 * cold
    opened.close()


def test_pageable_memory_takes_longer_than_page_locked(backend: Any) -> None:
    n = 4 << 20
    signature = Signature({"x": Array((n,), "float32")}, {"y": Array((1,), "float32")})
    found = {}
    for pinned in (True, False):
        opened = backend.open(signature, {"x": np.zeros(n, np.float32)}, ReadingOptions(pinned=pinned))
        runnable = prepare(opened, Launch("read", (264,), (512,), ("x", "y", n)))
        found[pinned] = median_ns(lambda opened=opened, runnable=runnable: opened.begin(runnable, Measure.TOTAL)(), 11)
        opened.close()
    assert found[True] < found[False]


def test_steps_replayed_as_a_graph_compute_the_same(backend: Any, inputs: dict[str, np.ndarray]) -> None:
    opened = backend.open(SIGNATURE, inputs, ReadingOptions(graph=True), 1 << 16)
    scratch = {"s": Array((N,), "float32")}
    steps = (Fill("s"), launch("scale", "x", "s", N, 2.0), launch("scale", "s", "y", N, 2.0))
    runnable = prepare(opened, *steps, scratch=scratch)
    assert runnable.steps == 1
    assert np.array_equal(result(opened, runnable), 4 * inputs["x"])
    assert np.array_equal(result(opened, runnable), 4 * inputs["x"])
    opened.close()


def test_facts_and_calibration(backend: Any) -> None:
    facts = backend.facts()
    assert facts.backend == "cuda"
    assert len(facts.uuid) == 32
    assert set(facts.identity) == {"name", "compute_capability", "multiprocessors", "driver", "nvrtc"}
    found = backend.calibrate()
    assert 1e10 < found.read_bandwidth < 2e13
    assert 0 <= found.event_overhead_ns < 10_000


def test_a_reading_without_its_flush_is_suspect(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    timer = backend.device.timer
    assert timer.cold(Work(lambda: None))().suspect == ""
    for slot in timer._slots:
        monkeypatch.setattr(slot, "flush", lambda stream: None)
    assert timer.cold(Work(lambda: None))().suspect.startswith(NOT_COLD)


def test_what_a_variant_leaves_of_the_contexts_settings_is_put_back(backend: Any) -> None:
    driver = load_driver()
    limits, configs = driver.CUlimit, driver.CUfunc_cache
    changed = {limits.CU_LIMIT_STACK_SIZE: 4096, limits.CU_LIMIT_PERSISTING_L2_CACHE_SIZE: 1 << 20}

    def read() -> list[int]:
        found = [call(driver.cuCtxGetLimit(limit), "read a limit") for limit in changed]
        return [*map(int, found), int(call(driver.cuCtxGetCacheConfig(), "read the cache configuration"))]

    before = read()
    for limit, value in changed.items():
        call((*driver.cuCtxSetLimit(limit, value),), "change a limit")
    call((*driver.cuCtxSetCacheConfig(configs.CU_FUNC_CACHE_PREFER_L1),), "change the cache configuration")
    assert read() != before
    assert not backend.device.put_back(settings=False)
    assert read() != before
    assert backend.device.put_back()
    assert read() == before
    assert not backend.device.put_back()


def test_nobody_meets_an_error_that_another_ones_call_left_behind(backend: Any) -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.ones(4, device="cuda")
    runtime = next(path for path in Path("/proc/self/maps").read_text().split() if "libcudart.so." in path)
    assert ctypes.CDLL(runtime).cudaFree(ctypes.c_void_p(1))  # an error that nobody asks for
    with pytest.raises(Exception, match="CUDA error"):
        numbers + 1
    ctypes.CDLL(runtime).cudaFree(ctypes.c_void_p(1))
    backend.device.find_runtimes()
    backend.device.put_back()
    assert (numbers + 1).tolist() == [2.0] * 4


def test_a_window_of_lines_that_persist_is_taken_off_the_stream(backend: Any) -> None:
    driver, stream = load_driver(), backend.device.stream.ptr
    kind, data = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, backend.device.cupy.zeros(1 << 20)
    value = driver.CUstreamAttrValue()
    value.accessPolicyWindow.base_ptr, value.accessPolicyWindow.num_bytes = data.data.ptr, data.nbytes
    value.accessPolicyWindow.hitRatio = 1.0
    value.accessPolicyWindow.hitProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING

    def read() -> int:
        found = call(driver.cuStreamGetAttribute(stream, kind), "read the window")
        return int(found.accessPolicyWindow.num_bytes)

    call((*driver.cuStreamSetAttribute(stream, kind, value),), "set a window")
    assert read() == data.nbytes
    backend.device.put_back(settings=False)
    assert read() == 0
