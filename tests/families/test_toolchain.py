"""Compilers that a variant may name, CUDA's headers, and required modules: found without importing, with versions."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuprof.core.errors import MissingDependencyError
from cuprof.families import toolchain
from cuprof.families.toolchain import (
    STANDARD,
    check_requirements,
    find_headers,
    get_compiler,
    get_version,
    is_installed,
    uses_headers,
)


@pytest.fixture(autouse=True)
def found_anew() -> Iterator[None]:
    find_headers.cache_clear()
    yield
    find_headers.cache_clear()
    get_compiler.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{version}'\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    get_compiler.cache_clear()
    monkeypatch.setenv("PATH", str(folder))


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
    monkeypatch.setenv("PATH", str(tmp_path))
    assert get_compiler("g++").version == "none"
    with pytest.raises(MissingDependencyError, match=r"g\+\+"):
        get_compiler("g++").command()


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("#include <cuda_fp16.h>", True),
        ("int x;\n  #  include <cub/cub.cuh>", True),
        ('#include "own.cuh"', False),
        ("// no #include <anything>", False),
    ],
)
def test_angle_brackets_need_headers(text: str, needs: bool) -> None:
    assert uses_headers(text) is needs


def test_a_toolkit_named_by_the_environment_is_found_with_its_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    include = tmp_path / "include"
    (include / "cccl" / "cub").mkdir(parents=True)
    (include / "cccl" / "cub" / "cub.cuh").touch()
    (include / "cccl" / "cuda" / "std" / "__cccl").mkdir(parents=True)
    (include / "cccl" / "cuda" / "std" / "__cccl" / "version.h").write_text("#define CCCL_VERSION 3000002\n")
    (include / "cuda_fp16.h").touch()
    (include / "cuda_runtime_api.h").write_text("#define CUDART_VERSION  13000\n")
    monkeypatch.setattr(toolchain, "_locate", lambda name: [])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    found = find_headers()
    assert found.folders == (include, include / "cccl", STANDARD)
    assert found.version == "cudart 13000, cccl 3000002"


def test_without_any_the_stand_ins_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_find_folder", lambda header, folders: None)
    assert find_headers() == toolchain.Headers((STANDARD,))


def test_installed_modules_are_found_without_import() -> None:
    code = (
        "import sys; from cuprof.families.toolchain import is_installed;"
        "print(is_installed('xml.dom.minidom'), is_installed('xml.nothing'), is_installed('json.nothing.more'),"
        " 'xml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False", "False"]


def test_absent_modules_come_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    unavailable = check_requirements(("numpy", "cv2", "absent_module"))
    assert unavailable is not None
    assert unavailable.reason == "Python modules cv2, absent_module are not installed"
    assert unavailable.remedy == "pip install opencv-python-headless; pip install absent_module"


def test_nothing_missing() -> None:
    assert check_requirements(()) is None
    assert check_requirements(("numpy",)) is None


def test_an_absent_module_has_the_version_none() -> None:
    import numpy

    assert get_version("numpy") == numpy.__version__
    assert get_version("absent_module") == "none"


def test_a_module_of_a_distribution_with_another_name() -> None:
    import yaml

    assert get_version("yaml") == yaml.__version__


def test_a_name_that_several_distributions_share(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = {"shared": ["numpy", "hypothesis", "numpy"]}
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: shared)
    monkeypatch.setitem(sys.modules, "shared.part", sys)
    import hypothesis
    import numpy

    get_version.cache_clear()
    assert get_version("shared.part") == f"hypothesis {hypothesis.__version__}, numpy {numpy.__version__}"


def test_a_module_without_distribution() -> None:
    assert is_installed("json")
    assert get_version("json") == "unknown"
