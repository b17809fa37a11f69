"""What one variant sets for the whole process holds while it runs, and for nobody else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import threadpoolctl

from cuprof.backends import switches
from cuprof.backends.switches import Switch, list_thread_pools, prepare_call, put_back_switches
from cuprof.core.point import Point


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a library's threads, four as it is loaded."""
    threads = SimpleNamespace(count=4)
    switch = Switch("threads of x", lambda: threads.count, lambda count: setattr(threads, "count", count))
    monkeypatch.setattr(switches, "list_thread_pools", lambda: [switch])
    monkeypatch.setattr(switches, "_POOLS", {})
    monkeypatch.setattr(switches, "_searched", [-1])
    return threads


def keep_own(prepare: Callable[[], Any]) -> Callable[[], object]:
    """Return what is timed of a variant that prepares itself so."""
    variant: Any = SimpleNamespace(make=lambda *_: prepare())
    return prepare_call(variant, Point(), Point(), {}, {})[0]


def test_threads_that_a_variant_takes_from_a_library_are_there_for_all_others(pool: SimpleNamespace) -> None:
    seen: list[int] = []

    def prepare() -> Any:
        pool.count = 1
        return lambda: seen.append(pool.count)

    limited = keep_own(prepare)
    assert pool.count == 4
    limited()
    assert (seen, pool.count) == ([1], 4)
    pool.count = 2  # as it runs, and not before
    put_back_switches()
    assert pool.count == 4


def test_the_threads_of_numpys_library_are_found() -> None:
    found = {pool.name: pool for pool in list_thread_pools() if "openblas" in pool.name}
    if not found:
        pytest.skip("NumPy comes with another library here")
    for pool in found.values():
        before = pool.read()
        pool.write(1)
        assert pool.read() == 1
        pool.write(before)
        assert pool.read() == before


def test_a_library_that_tells_no_number_has_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = SimpleNamespace(filepath="/x/libopenblas.so", get_num_threads=lambda: None, set_num_threads=lambda _: None)
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: SimpleNamespace(lib_controllers=[silent]))
    assert "threads of libopenblas.so" not in {pool.name for pool in list_thread_pools()}


def test_numba_is_not_asked_before_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = SimpleNamespace(_is_initialized=False, get_num_threads=lambda: 3, set_num_threads=lambda _: None)
    monkeypatch.setitem(sys.modules, "numba.np.ufunc.parallel", numba)  # type: ignore[misc]
    assert "Numba's threads" not in {pool.name for pool in list_thread_pools()}
    numba._is_initialized = True
    assert [pool.read() for pool in list_thread_pools() if pool.name == "Numba's threads"] == [3]


def test_thread_pools_are_searched_for_where_a_library_was_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    searches, loads = [], [7]
    monkeypatch.setattr(switches, "list_thread_pools", lambda: searches.append(1) or [])
    monkeypatch.setattr(switches, "_count_loads", lambda: loads[0])
    monkeypatch.setattr(switches, "_searched", [-1])
    for _ in range(3):
        keep_own(lambda: int)
    assert len(searches) == 1
    loads[0] += 1
    keep_own(lambda: int)
    assert len(searches) == 2
    loads[0] = 0  # where the system does not say
    keep_own(lambda: int)
    assert len(searches) == 4


def test_loaded_libraries_are_counted() -> None:
    if sys.platform != "linux":
        pytest.skip("only glibc counts them")
    assert switches._count_loads() > 0
