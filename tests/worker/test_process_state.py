"""What a library or a variant leaves changed of its process is put back."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cuprof.worker.protection import ProcessState

DENORMAL = np.float32(1e-40)
LIBRARY = ctypes.CDLL(None)


def flush_denormals() -> None:
    environment = ctypes.create_string_buffer(64)
    LIBRARY.fegetenv(environment)
    environment[28:32] = (int.from_bytes(environment[28:32], "little") | 0x8040).to_bytes(4, "little")
    LIBRARY.fesetenv(environment)


CHANGES: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "collection": (gc.disable, gc.isenabled),
    "warnings": (lambda: warnings.simplefilter("error", BytesWarning), lambda: list(warnings.filters)),
    "errors": (lambda: np.seterr(divide="raise"), np.geterr),
    "random": (lambda: random.seed(12345), random.getstate),
    "NumPy's random": (lambda: np.random.seed(12345), lambda: np.random.get_state()[1].tolist()),
    "environment": (lambda: os.environ.update(OMP_NUM_THREADS="1"), lambda: os.environ.get("OMP_NUM_THREADS")),
    "denormals": (flush_denormals, lambda: bool(DENORMAL * np.float32(1))),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_what_is_changed_is_put_back(name: str) -> None:
    change, read = CHANGES[name]
    state, before = ProcessState(), read()
    change()
    assert read() != before
    state.put_back()
    assert read() == before


def test_what_cannot_be_put_back_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path.cwd()
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    state = ProcessState()
    os.chdir(home)
    (tmp_path / "gone").rmdir()
    state.put_back()
    assert Path.cwd() == home
