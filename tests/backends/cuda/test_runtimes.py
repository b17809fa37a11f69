"""Errors that one user of CUDA's shared runtime leaves for the next."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from cuprof.backends.cuda.device import RUNTIME, CudaDevice

# Without a driver the real one never forgets that there is none; tests/backends/cuda/test_session.py has it on a GPU.
STANDS_IN = """
static int last = 700;
int cudaPeekAtLastError(void) { return last; }
int cudaGetLastError(void) { int found = last; last = 0; return found; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_an_error_that_nobody_asked_for_is_forgotten(tmp_path: Path) -> None:
    source, file = tmp_path / "runtime.c", tmp_path / "libcudart-9335f6a2.so.13"
    source.write_text(STANDS_IN)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", file, source], check=True)
    device = object.__new__(CudaDevice)
    device.find_runtimes()
    runtime = ctypes.CDLL(str(file))
    device.forget_errors()
    assert runtime.cudaPeekAtLastError() == 700  # it was not there yet
    device.find_runtimes()
    device.forget_errors()
    assert runtime.cudaPeekAtLastError() == 0


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("7f r-xp 00 08:01 1  /opt/nvidia/cu13/lib/libcudart.so.13\n", "/opt/nvidia/cu13/lib/libcudart.so.13"),
        ("7f r-xp 00 08:01 1  /t/torch/lib/libcudart-9335f6a2.so.11.0\n", "/t/torch/lib/libcudart-9335f6a2.so.11.0"),
        ("7f r-xp 00 08:01 1  /t/lib/libcudart_static.a\n", ""),
        ("7f r-xp 00 08:01 1  /t/lib/libcudart.so.13.2 (deleted)\n", ""),
    ],
)
def test_a_copy_is_known_by_whatever_name_it_has(line: str, file: str) -> None:
    assert RUNTIME.findall(line) == ([file] if file else [])
