"""What a variant leaves changed of its process is put back, and what cannot be is told."""

from __future__ import annotations

import ctypes
import gc
import random
import resource
import signal
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from cuprof.backends.switches import Switch
from cuprof.worker import process_state
from cuprof.worker.process_state import ProcessState

DENORMAL = np.float32(1e-40)
ALARM = signal.ITIMER_VIRTUAL
LIBRARY = ctypes.CDLL(None)


def flush_denormals() -> None:
    environment = ctypes.create_string_buffer(64)
    LIBRARY.fegetenv(environment)
    environment[28:32] = (int.from_bytes(environment[28:32], "little") | 0x8040).to_bytes(4, "little")
    LIBRARY.fesetenv(environment)


CHANGES: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "alarms": (lambda: signal.setitimer(ALARM, 60, 60), lambda: signal.getitimer(ALARM)),
    "handlers": (lambda: signal.signal(signal.SIGUSR2, lambda *_: None), lambda: signal.getsignal(signal.SIGUSR2)),
    "collection": (lambda: (gc.disable(), gc.set_threshold(1, 1, 1)), lambda: (gc.isenabled(), gc.get_threshold())),
    "thread hooks": (
        lambda: threading.settrace(lambda *_: None), lambda: (threading.getprofile(), threading.gettrace()),
    ),
    "callbacks": (lambda: gc.callbacks.append(lambda *_: None), lambda: list(gc.callbacks)),
    "warnings": (lambda: warnings.simplefilter("error", BytesWarning), lambda: list(warnings.filters)),
    "buffers": (lambda: np.setbufsize(1 << 16), np.getbufsize),
    "random": (lambda: random.seed(0), lambda: random.getstate()[1][:3]),
    "denormals": (flush_denormals, lambda: bool(DENORMAL * np.float32(1))),
    "limits": (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
               lambda: resource.getrlimit(resource.RLIMIT_NOFILE)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CHANGES))
def test_what_is_changed_is_put_back(name: str) -> None:
    change, read = CHANGES[name]
    state, before = ProcessState(), read()
    change()
    assert state.put_back() == ()
    assert read() == before


def test_what_cannot_be_put_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([1, 2, 2])
    part = Switch("a limit", lambda: next(values), lambda known: None)
    monkeypatch.setattr(process_state, "PARTS", (part,))
    assert ProcessState().put_back() == ("a limit",)

    def refuse(known: object) -> None:
        raise PermissionError

    values = iter([1, 2])
    monkeypatch.setattr(process_state, "PARTS", (part._replace(write=refuse),))
    assert ProcessState().put_back() == ("a limit",)
