"""What is put back and told where the judge's functions, constants and objects are changed."""

from __future__ import annotations

import builtins
import gc
import random
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from types import ModuleType

import numpy as np
import pytest

from cuprof.backends.contract import Session
from cuprof.backends.cpu.session import CpuSession
from cuprof.core.records import State
from cuprof.families import Tolerance
from cuprof.worker import check, executions, integrity
from cuprof.worker.bench import Bench
from cuprof.worker.integrity import Integrity


@dataclass
class Holder:
    """An object of the judge's that leads to another one."""

    tolerances: list[Tolerance]

    def answer(self) -> int:
        """Return something."""
        return 1


Holder.__module__ = "cuprof.worker.holder"


@pytest.fixture(scope="module")
def known() -> Integrity:
    return Integrity()


@pytest.fixture(autouse=True)
def sound(known: Integrity) -> Iterator[None]:
    known.mend()
    yield
    known.watch()
    known.mend()


def test_nothing_is_told_where_nothing_was_changed(known: Integrity) -> None:
    assert known.mend() == ()


def test_functions_constants_and_modules_are_put_back(known: Integrity, monkeypatch: pytest.MonkeyPatch) -> None:
    real, wanted, module = check.compare, executions.WANTED, sys.modules["cuprof.worker.check"]
    defaults = check.compare.__defaults__
    monkeypatch.setattr(builtins, "max", lambda *_: 0)
    monkeypatch.setattr(builtins, "all", lambda _: True)
    monkeypatch.setattr(builtins, "map", lambda *_: iter(()))
    seen = {id(each): {**vars(each)} for each in (builtins, check, executions, sys)}
    monkeypatch.setattr(builtins, "vars", lambda each, real=vars: seen.get(id(each), real(each)))
    check.compare, executions.WANTED = lambda *_: None, 0  # type: ignore[assignment]
    real.__defaults__ = (5,)
    code, Bench.recheck.__code__ = Bench.recheck.__code__, Bench.show.__code__
    sys.modules["cuprof.worker.check"] = ModuleType("check")
    Bench.find_damage = lambda _: ""  # type: ignore[method-assign]
    assert {*known.mend()} >= {
        "builtins.max", "builtins.all", "builtins.map", "module cuprof.worker.check", "cuprof.worker.check.compare",
        "cuprof.worker.executions.WANTED", "cuprof.worker.bench.Bench.recheck", "Bench.find_damage",
    }  # fmt: skip
    assert (check.compare, executions.WANTED, sys.modules["cuprof.worker.check"]) == (real, wanted, module)
    assert real.__defaults__ == defaults
    assert Bench.recheck.__code__ is code
    assert known.mend() == ()


class Asking(ModuleType):
    """A module that says nothing of its class, nor of what it has."""

    def __getattribute__(self, name: str) -> object:
        """Return something else."""
        return {"__class__": ModuleType, "__dict__": {}}.get(name, 0)


def test_classes_behind_the_functions_are_put_back(known: Integrity) -> None:
    bases, start = State.__bases__, threading.Thread.start
    (methods,) = gc.get_referents(vars(np.ndarray))
    known.watch()
    np.__class__ = Asking
    CpuSession.__bases__ = (type("Sly", (Session,), {}),)
    threading.Thread.start = lambda _: None  # type: ignore[method-assign]
    random.SystemRandom.getrandbits = lambda *_: 0  # type: ignore[method-assign]
    State.IMPLAUSIBLE._value_ = "ok"
    methods["copy"] = lambda each: each
    assert {*known.mend()} == {
        "the class of numpy", "the bases of CpuSession", "ndarray.copy", "SystemRandom.getrandbits", "Thread.start",
        "State._value_",
    }  # fmt: skip
    assert (type(np), State.__bases__, threading.Thread.start) == (ModuleType, bases, start)
    array = np.zeros(1)
    assert array.copy() is not array
    assert State.IMPLAUSIBLE.value == "implausible"
    assert known.mend() == ()


def test_objects_keep_their_class_their_methods_and_what_is_frozen(known: Integrity) -> None:
    tolerance = Tolerance(absolute=0.5)
    holder = Holder([tolerance])
    known.watch(holder)
    object.__setattr__(tolerance, "absolute", 10.0)
    holder.answer = lambda: 2  # type: ignore[method-assign]
    assert known.mend() == ("Tolerance.absolute", "Holder.answer")
    assert (tolerance.absolute, holder.answer()) == (0.5, 1)
    holder.__class__ = type("Sly", (Holder,), {"answer": lambda _: 3})
    assert known.mend() == ("the class of a Holder",)
    assert holder.answer() == 1


class Slotted:
    """An object of the judge's without a dict, which can be called."""

    __slots__ = ("launch",)

    def __init__(self) -> None:
        self.launch = abs

    def __call__(self) -> int:
        """Return something."""
        return self.launch(-1)


Slotted.__module__ = "cuprof.worker.holder"


def test_objects_keep_the_functions_and_objects_that_they_hold(known: Integrity) -> None:
    holder, flush = Holder([]), Slotted()
    holder.flush, holder.count = flush, 1  # type: ignore[attr-defined]
    known.watch(holder)
    holder.count = 2  # type: ignore[attr-defined]
    assert known.mend() == ()
    flush.launch = lambda _: 0  # type: ignore[assignment]
    holder.flush = lambda: None  # type: ignore[attr-defined]
    assert {*known.mend()} == {"Holder.flush", "Slotted.launch"}
    assert (holder.flush(), flush.launch) == (1, abs)  # type: ignore[attr-defined]


def test_what_is_hidden_is_not_found_by_the_garbage_collector(known: Integrity) -> None:
    holder = Holder([])
    assert any(each is holder for each in gc.get_objects())
    known.hide()
    try:
        assert not any(each is holder for each in gc.get_objects())
    finally:
        gc.unfreeze()


def test_libraries_that_are_loaded_later_are_no_tampering(known: Integrity) -> None:
    import numba  # noqa: F401

    assert known.mend() == ()
    assert integrity.OWN in integrity.WATCHED


def test_what_a_family_loads_of_libraries_is_put_back_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("scipy.loaded_later")
    module.solve = slow = lambda: 1  # type: ignore[attr-defined]
    watching = Integrity()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    watching.learn()
    module.solve = lambda: 2  # type: ignore[attr-defined]
    assert watching.mend() == ("scipy.loaded_later.solve",)
    assert module.solve is slow  # type: ignore[attr-defined]
    watching.learn()
    assert watching.mend() == ()


def limit(value: float) -> float:
    return value * FACTOR


FACTOR = 2
CALLS = 0


def test_a_familys_own_function_is_put_back_with_what_its_names_stand_for(known: Integrity) -> None:
    def verify(outputs: list[float]) -> bool:
        return statistics.mean(outputs) < limit(1)

    known.trust(verify, constants=True)
    own, mean, right = globals(), statistics.mean, limit.__code__
    own["FACTOR"], statistics.mean = 1e9, lambda _: 0  # type: ignore[assignment]
    limit.__code__ = (lambda value: 1e9).__code__
    assert {f"{__name__}.FACTOR", f"{__name__}.limit", "statistics.mean"} == {*known.mend()}
    assert (FACTOR, statistics.mean, limit.__code__) == (2, mean, right)
    own["limit"] = lambda _: 1e9
    assert known.mend() == (f"{__name__}.limit",)


class Script:
    """Stands for what holds the functions of somebody's script, as one of the package's own classes does."""

    def __init__(self, verify: Callable[[list[float]], bool]) -> None:
        self.verify = verify

    def judge(self, outputs: list[float]) -> bool:
        return self._ask(outputs)

    def _ask(self, outputs: list[float]) -> bool:
        return self.verify(outputs)


@pytest.mark.parametrize("home", ["cuprof.families.computation", __name__])
def test_a_method_that_judges_is_put_back_with_the_function_that_it_calls(known: Integrity, monkeypatch, home) -> None:
    def verify(outputs: list[float]) -> bool:
        return all(each < limit(1) for each in outputs)

    script = Script(verify)
    for each in (Script, Script.judge, Script._ask):
        monkeypatch.setattr(each, "__module__", home)
    known.trust(script.judge, constants=True)
    right, own = verify.__code__, globals()
    verify.__code__ = (lambda outputs: True).__code__
    assert [name.rpartition(".")[2] for name in known.mend()] == ["verify"]
    assert verify.__code__ is right
    monkeypatch.setitem(own, "limit", lambda _: 1e9)
    assert known.mend() == (f"{__name__}.limit",)
    script.verify = bool
    assert len(known.mend()) == 1
    assert script.verify is verify


def test_what_a_judging_function_counts_itself_is_its_own(known: Integrity) -> None:
    def verify(outputs: list[float]) -> bool:
        global CALLS
        CALLS += 1
        return False

    known.trust(verify, constants=True)
    verify([])
    assert (CALLS, known.mend()) == (1, ())


def test_of_a_wrapped_function_what_it_wraps_is_put_back(known: Integrity) -> None:
    def verify(outputs: list[float]) -> bool:
        return False

    known.trust(partial(wraps(verify)(lambda outputs: verify(outputs)), []))
    verify.__code__ = (lambda outputs: True).__code__
    assert len(known.mend()) == 1
    assert not verify([])


def test_what_is_trusted_again_is_remembered_once_with_the_objects_that_it_holds(known: Integrity) -> None:
    own = Tolerance(relative=0.1, reason="a default")

    def tolerance(given: Tolerance = own) -> Tolerance:
        return given

    for _ in range(2):
        known.trust(tolerance)
        known.watch()
    object.__setattr__(own, "relative", 1e9)
    assert known.mend() == ("Tolerance.relative",)
    assert own.relative == 0.1
    remembered = [len(part) for part in (known._code, known._names, known._own)]
    known.trust(tolerance)
    known.watch()
    assert [len(part) for part in (known._code, known._names, known._own)] == remembered
