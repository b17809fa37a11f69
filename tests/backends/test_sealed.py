"""What is right is given back as it was, and is no array meanwhile."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from cuprof.backends.sealed import Sealed

DTYPES = ("bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex128")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (2, 0), (3, 5), (1001,)])
def test_arrays_come_back_as_they_were_given(shape: tuple[int, ...], dtype: str) -> None:
    drawn = np.random.default_rng(1).uniform(-100, 100, shape)
    given = np.asarray(np.abs(drawn) if dtype.startswith("u") else drawn).astype(dtype)
    sealed = Sealed({"y": given, "z": given.T})
    for _ in range(2):
        opened = sealed.open()
        assert list(opened) == ["y", "z"]
        for name, expected in (("y", given), ("z", given.T)):
            assert (opened[name].shape, opened[name].dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(opened[name], expected)


def test_special_values_keep_their_bits() -> None:
    given = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324])
    opened = Sealed({"y": given}).open()["y"]
    assert opened.tobytes() == given.tobytes()


def test_what_is_opened_is_the_askers_own() -> None:
    sealed = Sealed({"y": np.arange(5)})
    sealed.open()["y"][:] = 9
    np.testing.assert_array_equal(sealed.open()["y"], np.arange(5))


def test_no_two_are_masked_alike() -> None:
    zeros = {"y": np.zeros(1000)}
    one, other = ([array.tobytes() for array in reachable(Sealed(zeros))] for _ in range(2))
    assert one
    assert not set(one) & set(other)


def reachable(root: object) -> list[np.ndarray]:
    """Return every array that can be reached from an object by way of what the collector knows."""
    seen: set[int] = set()
    found, waiting = [], [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            found.append(each)
            if each.base is not None:
                waiting.append(each.base)
        waiting.extend(gc.get_referents(each))
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 1000])
def test_no_array_that_can_be_reached_holds_what_is_right(count: int) -> None:
    right = np.random.default_rng(2).normal(size=count)
    content = right.tobytes()
    sealed = Sealed({"y": right})
    arrays = reachable(sealed)
    assert arrays
    for array in arrays:
        held = array.tobytes()
        assert all(content[at : at + 8] not in held for at in range(0, len(content), 8))
