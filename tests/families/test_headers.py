"""Where CUDA's headers are looked for, and which sources need them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuprof.families import toolchain
from cuprof.families.toolchain import STANDARD, find_headers, uses_headers


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    find_headers.cache_clear()
    yield
    find_headers.cache_clear()


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
