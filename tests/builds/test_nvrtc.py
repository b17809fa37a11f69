"""Compiling CUDA C++ without a GPU: images, errors, resources, targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.backends.cuda import device
from cuprof.builds import Built
from cuprof.builds import nvrtc as nvrtc_module
from cuprof.builds.nvrtc import (
    NvrtcBuild,
    _first_error,
    nvrtc_version,
    pick_arch,
    read_resources,
)
from cuprof.builds.ptxas import KernelFacts
from cuprof.core.errors import BuildError, ImpossibleError

pytestmark = pytest.mark.usefixtures("nvrtc")

PLAIN = """
extern "C" __global__ void scale(const float* x, float* y, int n) {
    __shared__ float tile[BLOCK];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) tile[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = FACTOR * tile[blockDim.x - 1 - threadIdx.x];
}
"""
LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    40 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 40 bytes cumulative stack size, 4096 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 356 bytes cmem[0]
"""


def compiled(text: str = PLAIN, **changes: object) -> Built:
    given = {"name": "plain.cu", "arch": "sm_90", "defines": {"BLOCK": 256, "FACTOR": "2.0f"}}
    return NvrtcBuild(text, **{**given, **changes}).run()  # type: ignore[arg-type]


def test_an_image_with_its_kernels_resources() -> None:
    found = compiled()
    assert found.image.startswith(b"\x7fELF")
    assert set(found.kernels) == {"scale"}
    facts = found.kernels["scale"]
    assert facts.shared_bytes == 1024
    assert 4 <= facts.registers <= 64
    assert (facts.spill_bytes, facts.stack_bytes) == (0, 0)


def test_defines_and_options_reach_the_compiler() -> None:
    assert compiled(defines={"BLOCK": 512, "FACTOR": 3}).kernels["scale"].shared_bytes == 2048
    assert compiled(options=("-DBLOCK=128",), defines={"FACTOR": 1}).kernels["scale"].shared_bytes == 512


TEXTURE = """
extern "C" __global__ void look_up(cudaTextureObject_t table, float* y) {
    y[threadIdx.x] = tex1Dfetch<float>(table, 3);
}
"""


@pytest.mark.parametrize("arch", ["sm_90", "compute_90"])
def test_what_is_declared_ahead_of_a_source_does_not_change_what_is_built(
    monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    minimal = compiled(arch=arch)
    monkeypatch.setattr(nvrtc_module, "MINIMAL", "--no-such-option")
    whole = compiled(arch=arch)
    assert (whole.image, whole.kernels) == (minimal.image, minimal.kernels)


def test_a_source_may_use_what_the_short_declarations_leave_out() -> None:
    assert set(compiled(TEXTURE).kernels) == {"look_up"}


def test_includes_are_found(tmp_path: Path) -> None:
    (tmp_path / "factor.cuh").write_text("#define FACTOR 4\n")
    text = '#include "factor.cuh"\n' + PLAIN
    assert compiled(text, defines={"BLOCK": 32}, options=[f"-I{tmp_path}"]).kernels
    with pytest.raises(BuildError, match=r"factor\.cuh"):
        compiled(text, defines={"BLOCK": 32})


def test_an_error_names_file_line_and_what_is_wrong() -> None:
    with pytest.raises(BuildError) as raised:
        compiled(PLAIN.replace("tile[threadIdx.x] = x[i]", "tile[threadIdx.x] = undeclared"))
    message = str(raised.value)
    assert message.startswith("NVRTC refused plain.cu for sm_90: plain.cu(5): error: identifier")
    assert "undeclared" in message
    assert "\n" not in message
    assert "1 error detected" in raised.value.log


def test_a_warning_that_speaks_of_errors_is_not_taken_for_one() -> None:
    warned = PLAIN.replace("const int i", "int error_count = 3; const int i").replace("= x[i]", "= undeclared")
    with pytest.raises(BuildError) as raised:
        compiled(warned)
    assert 'warning #177-D: variable "error_count"' in raised.value.log
    assert "undeclared" in str(raised.value)


@pytest.mark.parametrize(
    ("log", "first"),
    [
        ("", ""),
        ("a.cu(3): error: no\na.cu(4): error: neither", "a.cu(3): error: no"),
        ("a.cu(1): error #20: identifier", "a.cu(1): error #20: identifier"),
        ('a.cu(1): catastrophic error: no file "b"', 'a.cu(1): catastrophic error: no file "b"'),
        ("info : fine\nptxas error   : Entry function uses too much", "ptxas error   : Entry function uses too much"),
        ("a.cu(1): warning: variable \"error\" was declared\na.cu(2): error: no", "a.cu(2): error: no"),
        ("some error of another form", "some error of another form"),
    ],
)  # fmt: skip
def test_the_first_error_of_a_log(log: str, first: str) -> None:
    assert _first_error(log) == first


def test_too_much_static_shared_memory_is_impossible() -> None:
    with pytest.raises(ImpossibleError, match=r"static shared memory a block 4096 KiB > 48 KiB of kernel scale"):
        compiled(defines={"BLOCK": 1 << 20, "FACTOR": 1})


def test_an_unknown_target_or_option_is_a_build_error() -> None:
    with pytest.raises(BuildError, match="sm_11"):
        compiled(arch="sm_11")
    with pytest.raises(BuildError):
        compiled(options=("--no-such-option",))


def test_resources_are_read_kernel_by_kernel() -> None:
    assert read_resources(LOG) == {"first": KernelFacts(255, 4096, 40, 40), "second": KernelFacts(8, 0, 0, 0)}
    assert read_resources("") == {}


def test_the_version_has_two_parts() -> None:
    major, minor = map(int, nvrtc_version().split("."))
    assert major >= 12
    assert minor >= 0


@pytest.mark.parametrize(
    ("known", "capability", "expected"),
    [
        ([75, 80, 86, 89, 90, 100], (9, 0), "sm_90"),
        ([75, 80, 86, 89, 90, 100], (8, 7), "sm_86"),
        ([75, 80, 86, 89, 90, 100], (10, 3), "sm_100"),
        ([75, 80, 90, 100, 103, 120], (12, 1), "sm_120"),
    ],
)
def test_the_newest_target_that_runs_on_the_device(
    monkeypatch: pytest.MonkeyPatch, known: list[int], capability: tuple[int, int], expected: str
) -> None:
    monkeypatch.setattr(nvrtc_module, "load_nvrtc", lambda: FakeNvrtc(known))
    assert pick_arch(*capability) == expected


def test_a_device_that_the_compiler_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc_module, "load_nvrtc", lambda: FakeNvrtc([75, 80]))
    monkeypatch.setattr(nvrtc_module, "nvrtc_version", lambda: "13.0")
    with pytest.raises(BuildError, match=r"no target for compute capability 7\.0 \(it knows 75, 80\)"):
        pick_arch(7, 0)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_the_frameworks_own_kernels_compile_and_say_whose_they_are(arch: str) -> None:
    source = (Path(device.__file__).with_name("device_kernels.cu")).read_text()
    cubin = NvrtcBuild(source, name="device_kernels.cu", arch=arch).run()
    assert {"cuprof_hold", "cuprof_spin", "cuprof_empty", "cuprof_read_through"} <= set(cubin.kernels)
    assert all(kernel.startswith("cuprof_") for kernel in cubin.kernels)
    assert all(facts.spill_bytes == 0 for facts in cubin.kernels.values())


def test_the_real_compiler_knows_the_h200() -> None:
    assert pick_arch(9, 0) == "sm_90"


class FakeNvrtc:
    """Knows some targets; its answer has room for more, as the real one may."""

    def __init__(self, known: list[int]) -> None:
        self.known = known

    def nvrtcGetNumSupportedArchs(self) -> tuple[int, int]:  # noqa: N802
        return 0, len(self.known)

    def nvrtcGetSupportedArchs(self) -> tuple[int, list[int]]:  # noqa: N802
        return 0, [*self.known, 0, 0]
