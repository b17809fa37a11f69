"""The hash of a loaded program's machine code, of cubins that NVRTC makes without a GPU."""

from __future__ import annotations

import pytest

from cuprof.backends.cuda.loading import Loaded
from cuprof.builds import Built
from cuprof.builds.machine_code import hash_program
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.families import Array, Launch, Program


def compile_kernel(name: str, factor: int = 2) -> Built:
    pytest.importorskip("cuda.bindings.nvrtc")
    text = f'extern "C" __global__ void {name}(float *x) {{ x[threadIdx.x] *= {factor}; }}'
    return NvrtcBuild(text, f"{name}.cu", "sm_90").run()


def hash_of(*builds: Built) -> str:
    return Loaded("program", [(None, build) for build in builds]).sass_hash


def test_equal_code_has_one_hash_whatever_its_names() -> None:
    assert hash_of(compile_kernel("f")) == hash_of(compile_kernel("g")) != ""
    assert hash_of(compile_kernel("f")) != hash_of(compile_kernel("f", 3))
    assert hash_of(compile_kernel("f"), compile_kernel("f", 3)) == hash_of(compile_kernel("f", 3), compile_kernel("g"))


def test_code_that_is_not_seen_has_no_hash() -> None:
    precompiled = Built(b"", "")
    assert hash_of() == hash_of(precompiled) == hash_of(compile_kernel("f"), precompiled) == ""


def test_equal_launches_of_equal_code_have_one_hash_whatever_the_kernels_are_called() -> None:
    def launched(kernel: str, grid: int = 4, **more: object) -> str:
        return hash_program("a" * 64, Program((Launch(kernel, (grid,), (32,), ("x", 3)),), **more))

    assert launched("f") == launched("g<float>") == launched("f", defines={"N": 3})
    assert len({launched("f"), launched("f", 8), launched("f", scratch={"s": Array((4,), "float32")})}) == 3
    assert launched("f").startswith(f"{'a' * 40}-")
    assert len(launched("f")) == 64
    assert hash_program("", Program(())) == ""
