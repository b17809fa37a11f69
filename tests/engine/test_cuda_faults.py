"""Broken CUDA variants: compiled everywhere, run in one sweep where there is a GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuprof.builds.nvrtc import NvrtcBuild, load_nvrtc
from cuprof.core.errors import BuildError, MissingDependencyError
from cuprof.core.records import DeviceFacts, State
from cuprof.engine.running import SweepResult
from cuprof.families import Family, Point, Program
from cuprof.families.origin import load_family
from cuprof.plan import Selection, plan

FAULTY = Path(__file__).parents[1] / "data" / "families" / "faulty"
SOUND = ("cuda_sound_first", "cuda_sound_between", "cuda_sound_last")
FAULTS: dict[str, tuple[State, str]] = {
    "cuda_illegal_address": (State.LAUNCH_ERROR, r".*ILLEGAL_ADDRESS.*"),
    "cuda_misaligned": (State.LAUNCH_ERROR, r".*MISALIGNED_ADDRESS.*"),
    "cuda_trap": (State.LAUNCH_ERROR, r".*(LAUNCH_FAILED|ASSERT|ILLEGAL_INSTRUCTION).*"),
    "cuda_stack_overflow": (State.LAUNCH_ERROR, r".*(ILLEGAL_ADDRESS|HARDWARE_STACK_ERROR|LAUNCH_FAILED).*"),
    "cuda_endless": (State.TIMED_OUT, r"stopped after 10 s \(limits\.check_s\) while checking"),
    "cuda_shared": (State.IMPOSSIBLE, r"shared memory a block 1024 KiB > \d+ KiB of kernel sound"),
    "cuda_threads": (State.IMPOSSIBLE, r"threads a block for .*__launch_bounds__ 1,024 > \d+ of kernel few_threads"),
    "cuda_scratch": (State.LAUNCH_ERROR, r"allocate scratch: out of device memory: .*"),
    "cuda_does_not_compile": (State.COMPILE_ERROR, r"NVRTC refused broken\.cu for sm_\d+: broken\.cu\(2\): error: .*"),
    "cuda_no_such_kernel": (State.LAUNCH_ERROR, r"find kernel absent: faults\.cu has no such kernel; there are .*"),
    "cuda_nan": (State.WRONG_RESULT, r"y\[64\] = nan, .*; 1 of 128 elements are wrong"),
    "cuda_unwritten": (State.WRONG_RESULT, r"y\[64\] = nan, .*; 64 of 128 elements are wrong"),
    "cuda_shifted": (
        State.WRONG_RESULT,
        r"y\[0\] = nan, .*; 1 of 128 elements are wrong; it writes outside its output y; .*",
    ),
    "cuda_outside": (State.WRONG_RESULT, r"it writes outside its output y; the variants after it .*"),
    "cuda_right_at_first": (State.WRONG_RESULT, r"right before timing, wrong after it: y\[\d+\] = .*"),
}
ALL = (
    "cuda_sound_first", "cuda_illegal_address", "cuda_misaligned", "cuda_trap", "cuda_stack_overflow",
    "cuda_sound_between", "cuda_endless", "cuda_shared", "cuda_threads", "cuda_scratch", "cuda_does_not_compile",
    "cuda_no_such_kernel", "cuda_nan", "cuda_unwritten", "cuda_shifted", "cuda_outside", "cuda_right_at_first",
    "cuda_sound_last",
)  # fmt: skip


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family(FAULTY)


def program_of(family: Family, name: str) -> Program:
    variant = family.variant(name)
    made: Program = variant.make(Point(n=128), Point({tunable.name: tunable.default for tunable in variant.tunables}))
    return made


def test_every_cuda_variant_is_in_this_table(family: Family) -> None:
    cuda = [name for name, variant in family.variants.items() if variant.backend == "cuda"]
    assert tuple(cuda) == ALL
    assert {*SOUND, *FAULTS} == set(ALL)


def test_all_of_them_can_be_planned(family: Family) -> None:
    device = DeviceFacts("cuda", 0, "any", memory_bytes=1 << 34)
    planned = plan(family, Selection(ALL), {"cuda": device})
    assert len(planned.trials) == len(ALL)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_the_faults_compile(family: Family, arch: str) -> None:
    try:
        load_nvrtc()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    cubin = NvrtcBuild((FAULTY / "faults.cu").read_text(), name="faults.cu", arch=arch).run()
    launched = {
        step.kernel
        for name in ALL
        if family.variant(name).source == "faults.cu"
        for step in program_of(family, name).launches
    }
    assert launched - set(cubin.kernels) == {"absent"}
    with pytest.raises(BuildError, match=r"broken\.cu\(2\): error: identifier .undeclared. is undefined"):
        NvrtcBuild((FAULTY / "broken.cu").read_text(), name="broken.cu", arch=arch).run()


@pytest.fixture(scope="module")
def swept(shared_bench: Any) -> tuple[SweepResult, Any]:
    from cuprof.backends.cuda.backend import CudaBackend

    limits = replace(shared_bench.config().limits, build_s=60.0, check_s=10.0)
    most = (CudaBackend(0).facts().memory_bytes >> 26) - 1  # the rest is less than a context takes
    found: tuple[SweepResult, Any] = shared_bench.sweep(*ALL, limits=limits, tune={"chunks": (most,)})
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("variant", FAULTS)
def test_a_cuda_fault_is_a_typed_row_with_its_message(swept: Any, variant: str) -> None:
    state, message = FAULTS[variant]
    outcome = swept[1].of(variant)
    assert outcome.state is state, outcome.message
    assert re.fullmatch(message, outcome.message), outcome.message


@pytest.mark.gpu
@pytest.mark.parametrize("variant", SOUND)
def test_sound_kernels_around_the_faults_are_measured_in_a_clean_context(swept: Any, variant: str) -> None:
    outcome = swept[1].of(variant)
    assert (outcome.state, outcome.message) == (State.OK, "")
    assert outcome.timings[0].summary.count >= 3
    assert 0 < outcome.timings[0].summary.median_ns < 1e6


@pytest.mark.gpu
def test_the_sweep_of_cuda_faults_ends_finished_with_exit_code_1(swept: Any, shared_bench: Any) -> None:
    result, _ = swept
    assert result.exit_code == 1
    failed = {variant for variant, (state, _) in FAULTS.items() if state is not State.IMPOSSIBLE}
    assert {trial.variant for trial, _ in result.failed} == failed
    assert shared_bench.query("SELECT state FROM sweep") == [("finished",)]
