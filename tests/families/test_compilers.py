"""Compilers that a variant may name: found, versioned, and part of its identity."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cuprof.core.errors import FamilyError, MissingDependencyError
from cuprof.families import toolchain
from cuprof.families.toolchain import get_compiler


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{version}'\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    get_compiler.cache_clear()
    monkeypatch.setattr(toolchain.os, "get_exec_path", lambda: [str(folder)])


@pytest.fixture(autouse=True)
def _found_anew() -> object:
    yield
    get_compiler.cache_clear()


def test_the_version_is_the_last_one_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, tmp_path, "nvcc", "Cuda compilation tools, release 13.0, V13.0.88")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    assert get_compiler("nvcc").version == "nvcc 13.0.88"


def test_a_toolkit_that_is_named_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, tmp_path / "home" / "bin", "nvcc", "V12.9.1")
    pretend(monkeypatch, tmp_path / "path", "nvcc", "V13.0.88")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert get_compiler("nvcc").version == "nvcc 12.9.1"


def test_one_that_is_absent_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    get_compiler.cache_clear()
    monkeypatch.setattr(toolchain.os, "get_exec_path", lambda: [str(tmp_path)])
    assert get_compiler("g++").version == "none"
    with pytest.raises(MissingDependencyError, match=r"g\+\+"):
        get_compiler("g++").command()


def test_an_unknown_one_is_refused_with_those_there_are() -> None:
    with pytest.raises(FamilyError, match=r"icc.*nvcc"):
        get_compiler("icc")
