"""Kernel arguments as bytes, and the driver's refusals as exceptions; no device needed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cuprof.backends.contract import DeviceLostError
from cuprof.backends.cuda import driver as cuda_driver
from cuprof.backends.cuda.driver import CONTEXT_LOST, PackedLaunch, call, make_tensor_map
from cuprof.core.errors import DeviceMemoryError, ImpossibleError, LaunchError
from cuprof.families import Array, Launch
from cuprof.families.program import TensorMap, as_scalar

ONE = Launch("k", (1,))


class FakeDriver:
    """Take launches and refuse as told."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.status = 0

    def cuLaunchKernel(self, *arguments: Any) -> tuple[int]:  # noqa: N802
        self.launches.append(arguments)
        return (self.status,)

    def cuGetErrorString(self, status: Any) -> tuple[int, bytes]:  # noqa: N802
        return 0, b"what it means"

    class CUresult:
        def __init__(self, value: int) -> None:
            if value == 12345:
                raise ValueError(value)
            self.name = f"CUDA_ERROR_{value}"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setattr(cuda_driver, "load_driver", lambda: fake)
    return fake


def argument_bytes(params: int, sizes: Sequence[int]) -> list[bytes]:
    """Read the arguments as the driver does: through a table of pointers."""
    table = (ctypes.c_void_p * len(sizes)).from_address(params)
    return [ctypes.string_at(table[index], size) for index, size in enumerate(sizes)]


SCALARS = (
    np.int32(-5), np.uint32(2**32 - 1), np.int64(-(2**40)), np.uint64(2**64 - 1), np.float32(1.5), np.float64(-2.25),
    np.float16(0.5), np.int8(-1), np.uint8(255), np.bool_(True), np.complex64(1 + 2j),
)  # fmt: skip


def test_arguments_lie_in_memory_as_the_kernel_reads_them(driver: FakeDriver) -> None:
    address = 0x7F00_1234_5678_9A00
    launch = PackedLaunch(Launch("k", (3,), (64, 2), shared_bytes=4096), "function", [address, *SCALARS])
    launch(77)
    ((function, *rest),) = driver.launches
    assert function == "function"
    assert rest[:8] == [3, 1, 1, 64, 2, 1, 4096, 77]
    params, extra = rest[8:]
    assert extra == 0
    found = argument_bytes(params, [8, *(value.nbytes for value in SCALARS)])
    assert found == [address.to_bytes(8, "little"), *(value.tobytes() for value in SCALARS)]


def test_each_argument_is_aligned_for_its_type(driver: FakeDriver) -> None:
    launch = PackedLaunch(ONE, None, list(SCALARS))
    table = (ctypes.c_void_p * len(SCALARS)).from_address(launch.params)
    assert all(table[index] % value.itemsize == 0 for index, value in enumerate(SCALARS))


def test_a_kernel_without_arguments(driver: FakeDriver) -> None:
    PackedLaunch(ONE, None, [])(0)
    assert len(driver.launches) == 1


def test_repeated_launches_share_the_arguments_and_one_can_be_replaced(driver: FakeDriver) -> None:
    launch = PackedLaunch(ONE, None, [1, np.uint32(7), np.uint64(9)])
    launch(0)
    launch.set_argument(1, np.uint32(8))
    launch(0)
    first, second = (arguments[9] for arguments in driver.launches)
    assert first == second
    assert argument_bytes(first, (8, 4, 8)) == [
        (1).to_bytes(8, "little"), (8).to_bytes(4, "little"), (9).to_bytes(8, "little"),
    ]  # fmt: skip


def test_arguments_outlive_what_they_were_made_from(driver: FakeDriver) -> None:
    launches = [PackedLaunch(ONE, None, [np.int64(number)]) for number in range(200)]
    values = [int.from_bytes(argument_bytes(launch.params, (8,))[0], "little") for launch in launches]
    assert values == list(range(200))


def test_a_refused_launch_names_the_kernel(driver: FakeDriver) -> None:
    driver.status = 701
    with pytest.raises(LaunchError, match="launch scale: CUDA_ERROR_701: what it means") as raised:
        PackedLaunch(Launch("scale", (1,)), None, [])(0)
    assert not isinstance(raised.value, DeviceLostError)


@pytest.mark.parametrize("status", sorted(CONTEXT_LOST))
def test_errors_that_lose_the_context(driver: FakeDriver, status: int) -> None:
    with pytest.raises(DeviceLostError):
        call((status,), "execute")


@pytest.mark.parametrize("status", [1, 2, 98, 201, 209, 500, 600, 701, 720])
def test_errors_that_do_not(driver: FakeDriver, status: int) -> None:
    with pytest.raises(LaunchError) as raised:
        call((status,), "execute")
    kinds = {2: DeviceMemoryError, 701: ImpossibleError, 720: ImpossibleError}
    assert type(raised.value) is kinds.get(status, LaunchError)


def test_a_status_that_the_bindings_do_not_know(driver: FakeDriver) -> None:
    with pytest.raises(LaunchError, match="execute: CUDA error 12345"):
        call((12345,), "execute")


def test_answers_are_unpacked() -> None:
    assert call((0, "one"), "x") == "one"
    assert call((0, 1, 2), "x") == (1, 2)
    assert call((0,), "x") == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (5, np.int32(5)), (-1, np.int32(-1)), (True, np.int32(1)), (0.1, np.float32(0.1)),
        (np.int64(5), np.int64(5)), (np.float64(0.1), np.float64(0.1)), (np.uint8(3), np.uint8(3)),
    ],
)  # fmt: skip
def test_scalars_become_what_kernels_take(given: Any, expected: np.generic) -> None:
    found = as_scalar(given)
    assert (found.dtype, found) == (expected.dtype, expected)


def test_a_tensor_map_of_wider_numbers_than_the_driver_has_is_refused():
    with pytest.raises(LaunchError, match="complex128 has 16 bytes, and 8 are the most"):
        make_tensor_map(TensorMap("x", (4,)), Array((64,), "complex128"), 0)
