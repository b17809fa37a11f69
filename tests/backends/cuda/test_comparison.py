"""The device's comparison says what the host's says, or leaves the verdict to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuprof.backends.contract import ReadingOptions, Runnable
from cuprof.backends.cuda import comparison as cuda_compare
from cuprof.backends.cuda.device import as_bits
from cuprof.families import Array, Signature, Tolerance
from cuprof.worker.compare import NOT_LOOKED_AT, compare

pytestmark = pytest.mark.gpu

N = 100_003
TYPES = ("float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32")


@pytest.fixture(scope="module")
def backend() -> Any:
    from cuprof.backends.cuda.backend import CudaBackend

    return CudaBackend()


def judge(backend: Any, output: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> tuple[Any, Any]:
    """Return what device and host say of one output."""
    spec = Array(output.shape, str(output.dtype))
    session = backend.open(Signature({}, {"y": spec}), {}, ReadingOptions())
    try:
        session.stock([{}], [{"y": expected}])
        session.outputs["y"].set(as_bits(output))
        runnable = Runnable(int, session.outputs)
        return session.check_in_place(runnable, tolerance, 7), compare({"y": output}, {"y": expected}, tolerance, 7)
    finally:
        session.close()


def draw(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    if np.dtype(dtype).kind == "f":
        return rng.uniform(-3, 3, N).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(max(limits.min, -1000), min(limits.max, 1000), N, dtype=dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_right_results_pass_with_the_hosts_figures(backend: Any, dtype: str) -> None:
    output = draw(dtype)
    exact = dtype.startswith(("int", "uint"))
    expected = output.astype(np.int64) if exact else output.astype(np.float64) * (1 + 1e-7)
    found, host = judge(backend, output, expected, Tolerance(relative=1e-6) if not exact else Tolerance())
    assert found is not None
    assert (found.passed, found.message, found.seed) == (True, "", 7)
    assert (found.error, found.error_absolute) == pytest.approx((host.error, host.error_absolute), rel=1e-12)
    assert found.error_relative == pytest.approx(host.error_relative, rel=1e-6)


@pytest.mark.parametrize("dtype", TYPES)
def test_references_and_bounds_of_every_type_are_read_as_they_are(backend: Any, dtype: str) -> None:
    output = draw(dtype)
    expected, bounds = output.copy(), np.full(N, 0.25, np.float16)
    assert judge(backend, output, expected, Tolerance(absolute=bounds))[0] is not None
    expected[N - 3] += 1
    assert judge(backend, output, expected, Tolerance(absolute=bounds))[0] is None
    bounds[N - 3] = 1.5
    assert judge(backend, output, expected, Tolerance(absolute=bounds))[0] is not None


@pytest.mark.parametrize("place", [0, 31, 32, 255, 256, N // 2, N - 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 4.0])
def test_one_wrong_element_is_left_to_the_host(backend: Any, place: int, value: float) -> None:
    output = draw("float32")
    expected = output.astype(np.float64)
    output[place] = value
    found, host = judge(backend, output, expected, Tolerance(absolute=0.5))
    assert found is None
    assert not host.passed


@pytest.mark.parametrize("absolute", [-1.0, np.nan])
def test_a_tolerance_that_passes_nothing_passes_nothing(backend: Any, absolute: float) -> None:
    output = draw("float32")
    assert judge(backend, output, output.astype(np.float64), Tolerance(absolute=absolute))[0] is None


def test_nan_in_the_reference_never_passes(backend: Any) -> None:
    output = draw("float32")
    expected = output.astype(np.float64)
    output[5] = expected[5] = np.nan
    assert judge(backend, output, expected, Tolerance(absolute=np.inf))[0] is None


def test_the_same_infinity_passes(backend: Any) -> None:
    output = draw("float32")
    output[7] = np.inf
    found, host = judge(backend, output, output.astype(np.float64), Tolerance(relative=1e-6))
    assert found is not None
    assert host.passed


def test_a_bound_an_element_and_nobodys_business(backend: Any) -> None:
    output = draw("float32")
    expected = output.astype(np.float64)
    bounds = np.full(N, 1e-3)
    bounds[:10] = np.inf
    output[:10] = 1e6
    output[10] += np.float32(5e-4)
    found, host = judge(backend, output, expected, Tolerance(absolute=bounds))
    assert found is not None
    assert (found.error, found.error_absolute) == pytest.approx((host.error, host.error_absolute), rel=1e-9)
    bounds[10] = 1e-4
    assert judge(backend, output, expected, Tolerance(absolute=bounds))[0] is None


@pytest.mark.parametrize("dtype", sorted(cuda_compare.SMALL_TYPES))
def test_every_number_of_the_small_types_is_read_as_it_is(backend: Any, dtype: str) -> None:
    bits = Array((1,), dtype).type.itemsize * 8
    output = np.arange(2**bits, dtype=f"u{bits // 8}").view(Array((1,), dtype).type)
    with np.errstate(invalid="ignore"):  # NaN among them
        output = output[np.isfinite(output.astype(np.float64))]
    expected = output.astype(np.float64)
    found, host = judge(backend, output, expected, Tolerance())
    assert found is not None
    assert host.passed
    expected[output.size // 3] *= 1.01
    assert judge(backend, output, expected, Tolerance())[0] is None
    output.view(f"u{bits // 8}")[7] = 2 ** (bits - 1) - 1  # a NaN
    assert judge(backend, output, output.astype(np.float64), Tolerance(absolute=np.inf))[0] is None


def test_what_need_not_be_written_may_hold_anything_and_its_neighbours_may_not(backend: Any) -> None:
    output = draw("float32")
    expected, bounds = output.astype(np.float64), np.zeros(N)
    output[3:9] = np.nan
    bounds[3:9] = NOT_LOOKED_AT
    found, host = judge(backend, output, expected, Tolerance(absolute=bounds, relative=1e-6))
    assert found is not None
    assert host.passed
    bounds[8] = np.inf
    assert judge(backend, output, expected, Tolerance(absolute=bounds, relative=1e-6))[0] is None


def test_of_a_shorter_reference_so_many_elements_count(backend: Any) -> None:
    output = draw("float32")
    expected = output[: N - 300].astype(np.float64)
    output[N - 300 :] = np.nan
    assert judge(backend, output, expected, Tolerance())[0] is not None
    output[N - 301] = np.nan
    assert judge(backend, output, expected, Tolerance())[0] is None


def test_types_that_doubles_do_not_hold_are_left_to_the_host(backend: Any) -> None:
    output = np.arange(N, dtype=np.int64)
    assert judge(backend, output, output, Tolerance())[0] is None


def test_bounds_that_did_not_fit_once_are_taken_when_they_do(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    output = draw("float32")
    expected = output.astype(np.float64)
    bounds = np.full(N, 1e-6)
    bounds[0] = 1e9
    output[5] += 1
    comparison = cuda_compare.DeviceComparison(backend.device, [{"y": expected}])
    device = backend.device.upload(output)
    results = {"y": (device.data.ptr, Array(output.shape, "float32"))}
    tolerance = Tolerance(absolute=bounds)
    real, refused = backend.device.upload, [True]

    def refuse_once(*arguments: Any) -> Any:
        if refused.pop() if refused else False:
            raise MemoryError
        return real(*arguments)

    monkeypatch.setattr(backend.device, "upload", refuse_once)
    with pytest.raises(MemoryError):
        comparison.check(results, tolerance, 7)
    assert comparison.check(results, tolerance, 7) is None
