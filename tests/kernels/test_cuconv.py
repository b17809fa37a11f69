"""The cuconv family: geometry, resources on every architecture, reference, tolerances and CPU variants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.signal import correlate2d

from cuprof.builds import Built
from cuprof.core.project import bundled
from cuprof.families import Array, Family, Launch, Point
from cuprof.families.origin import load_family
from cuprof.report.experiment import load_experiment
from cuprof.report.published import read_published
from tests.kernels.often import seldom

CompileVariant = Callable[..., Built]

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100")
PRESETS = {
    "T3-1x1-A": (7, 1, 256, 832),
    "T3-1x1-B": (14, 1, 1024, 256),
    "T3-1x1-C": (27, 1, 256, 64),
    "T4-3x3-A": (4, 3, 384, 192),
    "T4-3x3-B": (13, 3, 384, 384),
    "T5-5x5-A": (7, 5, 128, 48),
    "E1": (32, 3, 64, 64),
    "E2": (32, 3, 128, 128),
    "E3": (64, 3, 128, 128),
    "E4": (64, 3, 256, 256),
}
ODD_PROBLEMS = (
    {"H": 1, "R": 1, "M": 1, "C": 1},
    {"H": 1, "R": 5, "M": 2, "C": 3},
    {"H": 5, "R": 7, "M": 3, "C": 33},
    {"H": 9, "R": 1, "M": 4, "C": 40},
    {"H": 17, "R": 3, "M": 5, "C": 70},
)


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family(bundled("kernels") / "cuconv")


def program_of(family: Family, variant: str, problem: dict[str, int], block: int = 256):
    return family.variant(variant).make(Point(problem), Point({"block": block}))


def drawn(family: Family, problem: Point, seed: int = 5):
    inputs = family.generate(problem, np.random.default_rng(seed))
    return inputs, family.reference(problem, inputs)["output"]


def error_of(result: np.ndarray, expected: np.ndarray, allowed: object) -> float:
    return float((np.abs(result - expected) / allowed).max())


def test_the_published_problems_are_presets(family: Family) -> None:
    assert {name: tuple(preset[axis] for axis in "HRMC") for name, preset in family.presets.items()} == PRESETS


def test_every_version_of_the_study_is_a_variant_and_split_is_the_baseline(family: Family) -> None:
    assert list(family.variants) == [
        *("split", "fused", "fused_as_printed", "cudnn_fp32", "cudnn_tf32"),
        *("cpu_serial", "cpu_reordered", "cpu_parallel"),
    ]
    assert [name for name, variant in family.variants.items() if variant.expected == "wrong"] == ["fused_as_printed"]
    assert family.get_baseline() == "split"


@pytest.mark.parametrize("side", [2, 4, 14])
def test_an_even_filter_is_refused_with_the_reason(family: Family, side: int) -> None:
    reason = family.constraint(Point({"H": 8, "R": side, "M": 1, "C": 1}))
    assert reason is not None
    assert f"R={side} is even" in reason
    assert family.constraint(Point({"H": 8, "R": side - 1, "M": 1, "C": 1})) is None


@pytest.mark.parametrize("name", [name for name, shape in PRESETS.items() if shape[1] > 1])
@pytest.mark.parametrize("block", [64, 256])
def test_split_launches_a_block_layer_for_each_tap_and_then_the_sum(family: Family, name: str, block: int) -> None:
    side, filter_side, filters, channels = PRESETS[name]
    program = program_of(family, "split", family.presets[name], block)
    blocks, taps = -(-(side**2) // block), filter_side**2
    assert program.steps == (
        Launch(
            "scalar_prods",
            (blocks, filters, taps),
            (block,),
            ("input", "filters", "partial", side, filter_side, channels),
        ),
        Launch("sum_taps", (blocks, filters, 1), (block,), ("partial", "output", side**2, taps)),
    )
    assert program.scratch == {"partial": Array((filters, taps, side**2), "float32")}


@pytest.mark.parametrize("name", [name for name, shape in PRESETS.items() if shape[1] == 1])
def test_split_writes_the_output_of_a_1x1_filter_in_its_only_launch(family: Family, name: str) -> None:
    side, _, filters, channels = PRESETS[name]
    program = program_of(family, "split", family.presets[name])
    arguments = ("input", "filters", "output", side, 1, channels)
    assert program.steps == (Launch("scalar_prods", (-(-(side**2) // 256), filters, 1), (256,), arguments),)
    assert not program.scratch


@pytest.mark.parametrize("name", PRESETS)
def test_fused_is_one_launch_with_the_weights_of_a_tap_in_shared_memory(family: Family, name: str) -> None:
    side, filter_side, filters, channels = PRESETS[name]
    program = program_of(family, "fused", family.presets[name])
    arguments = ("input", "filters", "output", side, filter_side, channels)
    grid = (-(-(side**2) // 256), filters, 1)
    assert program.steps == (Launch("fused", grid, (256,), arguments, shared_bytes=4 * channels),)


def count_unstaged(name: str, block: int) -> int:
    """Return the weights of a tap that the last block of the kernel as printed never loads."""
    side, _, _, channels = PRESETS[name]
    inside = side**2 % block or block
    return sum(channel % block >= inside for channel in range(channels))


def test_the_kernel_as_printed_is_wrong_on_four_published_problems(family: Family) -> None:
    check = family.variant("fused_as_printed").constraint
    wrong = {name: count_unstaged(name, 256) for name in PRESETS if count_unstaged(name, 256)}
    assert wrong == {"T3-1x1-A": 636, "T3-1x1-B": 60, "T4-3x3-A": 176, "T4-3x3-B": 87}
    for block in (32, 64, 256):
        for name in PRESETS:
            refusal = check(Point(family.presets[name]), Point({"block": block}))
            assert (refusal is None) is (count_unstaged(name, block) > 0), (name, block)


def test_the_kernel_as_printed_finds_no_weights_that_another_kernel_left(family: Family) -> None:
    program = program_of(family, "fused_as_printed", family.presets["T4-3x3-A"])
    (spoil,) = program.setup
    assert (spoil.kernel, spoil.shared_bytes) == ("occupy_shared", 48 * 1024)
    assert [launch.kernel for launch in program.steps] == ["fused_as_printed"]
    right = program_of(family, "fused", family.presets["T4-3x3-A"]).launches[0]
    assert (program.steps[0].grid, program.steps[0].args) == (right.grid, right.args)


def test_no_problem_on_the_axes_leaves_the_limits_of_a_launch(family: Family) -> None:
    largest = {axis.name: axis.high for axis in family.axes}
    for variant in ("split", "fused"):
        for launch in program_of(family, variant, largest, block=32).launches:
            assert launch.grid[0] < 2**31
            assert max(launch.grid[1:]) <= 65535
            assert launch.shared_bytes <= 48 * 1024
    assert largest["H"] ** 2 + 1024 < 2**31  # a pixel's index is 32-bit in the kernels


@pytest.mark.parametrize("arch", seldom(ARCHITECTURES, ("sm_75", "sm_90")))
@pytest.mark.parametrize("block", [32, 256, 1024])
@pytest.mark.parametrize("variant", ["split", "fused", "fused_as_printed"])
def test_kernels_compile_without_spills_and_fit_a_block(
    family: Family, compile_variant: CompileVariant, variant: str, block: int, arch: str
) -> None:
    program = program_of(family, variant, family.presets["E1"], block)
    cubin = compile_variant(family, variant, Point(family.presets["E1"]), {"block": block}, arch)
    assert set(cubin.kernels) == {launch.kernel for launch in program.launches}
    for facts in cubin.kernels.values():
        assert facts.spill_bytes == 0
        assert facts.stack_bytes == 0
        assert facts.shared_bytes == 0
        assert 0 < facts.registers * block <= 65536


@pytest.mark.parametrize("problem", ODD_PROBLEMS, ids=lambda problem: "-".join(map(str, problem.values())))
def test_reference_equals_scipys_correlation(family: Family, problem: dict[str, int]) -> None:
    point = Point(problem)
    inputs, expected = drawn(family, point)
    reach = (point.R - 1) // 2
    padded = np.pad(inputs["input"].astype(float), ((0, 0), (reach, reach), (reach, reach)))
    for m in range(point.M):
        planes = [correlate2d(padded[c], inputs["filters"][m, :, :, c].astype(float), "valid") for c in range(point.C)]
        np.testing.assert_allclose(expected[m], sum(planes), rtol=0, atol=1e-12)


def test_inputs_are_fresh_and_spread_over_minus_one_to_one(family: Family) -> None:
    point = Point(family.presets["E1"])
    first, second = (family.generate(point, np.random.default_rng(seed)) for seed in (1, 2))
    for name, spec in family.signature(point).inputs.items():
        assert first[name].shape == spec.shape
        assert first[name].dtype == spec.dtype
        assert -1 <= first[name].min() < -0.99
        assert 0.99 < first[name].max() < 1
        assert not np.array_equal(first[name], second[name])


@pytest.mark.parametrize("problem", ODD_PROBLEMS, ids=lambda problem: "-".join(map(str, problem.values())))
@pytest.mark.parametrize("variant", ["cpu_serial", "cpu_reordered", "cpu_parallel"])
def test_cpu_variants_are_right_and_repeatable(family: Family, variant: str, problem: dict[str, int]) -> None:
    point = Point(problem)
    inputs, expected = drawn(family, point)
    allowed = family.tolerance(point, inputs, {"output": expected}).absolute
    outputs = {"output": np.full(expected.shape, np.nan, np.float32)}
    run = family.variant(variant).make(point, Point({}), inputs, outputs)
    assert np.isnan(outputs["output"]).all(), "preparation computed the result"
    for _ in range(2):
        run()
        assert error_of(outputs["output"], expected, allowed) <= 1


@pytest.mark.parametrize("name", ["T3-1x1-A", "T4-3x3-B"])
def test_tolerance_admits_float32_sums_and_catches_one_missing_channel(family: Family, name: str) -> None:
    point = Point(family.presets[name])
    inputs, expected = drawn(family, point)
    tolerance = family.tolerance(point, inputs, {"output": expected})
    assert np.broadcast_shapes(np.shape(tolerance.absolute), expected.shape) == expected.shape
    total = np.zeros(expected.shape, np.float32)
    reach, side = (point.R - 1) // 2, point.H
    padded = np.pad(inputs["input"], ((0, 0), (reach, reach), (reach, reach)))
    for fy in range(point.R):
        for fx in range(point.R):
            for c in range(point.C):
                total += inputs["filters"][:, fy, fx, c, None, None] * padded[c, fy : fy + side, fx : fx + side]
    assert error_of(total, expected, tolerance.absolute) <= 1

    without = dict(inputs, input=inputs["input"].copy())
    without["input"][point.C // 2] = 0
    wrong = family.reference(point, without)["output"]
    for variant in ("split", "cudnn_fp32"):
        bound = family.variant(variant).tolerance or family.tolerance
        assert error_of(wrong, expected, bound(point, inputs, {"output": expected}).absolute) > 10


def test_only_the_tf32_bound_admits_tf32_operands(family: Family) -> None:
    point = Point(family.presets["T4-3x3-B"])
    inputs, expected = drawn(family, point)
    truncated = {name: (array.view(np.uint32) & 0xFFFFE000).view(np.float32) for name, array in inputs.items()}
    result = family.reference(point, truncated)["output"]
    errors = {
        variant: error_of(result, expected, bound(point, inputs, {"output": expected}).absolute)
        for variant, bound in (
            ("split", family.tolerance),
            ("fp32", family.variant("cudnn_fp32").tolerance),
            ("tf32", family.variant("cudnn_tf32").tolerance),
        )
    }
    assert errors["tf32"] <= 1 < errors["fp32"] < errors["split"]


def test_useful_work_counts_each_array_once(family: Family) -> None:
    point = Point(family.presets["E1"])
    signature = family.signature(point)
    arrays = (*signature.inputs.values(), *signature.outputs.values())
    assert family.useful_bytes(point) == sum(array.nbytes for array in arrays)
    assert family.flops(point) == 2 * 64 * 64 * 9 * 32 * 32


def test_the_study_reads_every_published_number(family: Family) -> None:
    experiment = load_experiment(bundled("experiments") / "cuconv")
    assert {tuple(problem[axis] for axis in "HRMC") for problem in experiment.problems.values()} == set(
        PRESETS.values()
    )
    values = read_published(experiment)
    assert {value.variant for value in values} <= set(family.variants)
    assert len([value for value in values if value.measure == "time"]) == 3 * len(PRESETS)
    split_e4 = next(
        value for value in values if value.variant == "split" and value.problem["C"] == 256 and value.problem["H"] == 64
    )
    assert split_e4.value == pytest.approx(16.892e6)


def test_the_experiment_sweeps_every_preset(family: Family) -> None:
    import yaml

    composed = yaml.safe_load((bundled("conf") / "experiment" / "cuconv.yaml").read_text())
    assert composed["problem"]["preset"] == list(family.presets)
    assert composed["baseline"] == family.get_baseline()


GPU_PROBLEMS = (
    *ODD_PROBLEMS,
    {"H": 16, "R": 3, "M": 8, "C": 64},
    {"H": 33, "R": 5, "M": 3, "C": 17},
    {"H": 4, "R": 15, "M": 2, "C": 5},
    {"H": 100, "R": 3, "M": 2, "C": 3},
    {"H": 3, "R": 3, "M": 5, "C": 8192},
    {"H": 2, "R": 1, "M": 8192, "C": 2},
    *({"H": h, "R": r, "M": m, "C": c} for h, r, m, c in PRESETS.values()),
)


@pytest.mark.gpu
@pytest.mark.parametrize("problem", GPU_PROBLEMS, ids=lambda problem: "-".join(map(str, problem.values())))
@pytest.mark.parametrize("block", [32, 64, 256, 1024])
@pytest.mark.parametrize("variant", ["split", "fused"])
def test_kernels_are_right_on_the_gpu(family: Family, variant: str, block: int, problem: dict[str, int]) -> None:
    from tests.kernels.one_check import check_variant

    check = check_variant(family, family.variant(variant), Point(problem), Point({"block": block}))
    assert check.passed, check.message


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["T3-1x1-A", "T3-1x1-B", "T4-3x3-A", "T4-3x3-B"])
def test_the_check_catches_the_kernel_as_printed_after_the_right_one(family: Family, name: str) -> None:
    from tests.kernels.one_check import check_variant

    for _ in range(3):
        assert check_variant(family, "fused", family.presets[name]).passed
        assert not check_variant(family, "fused_as_printed", family.presets[name]).passed


@pytest.mark.gpu
@pytest.mark.parametrize("problem", GPU_PROBLEMS, ids=lambda problem: "-".join(map(str, problem.values())))
@pytest.mark.parametrize("variant", ["cudnn_fp32", "cudnn_tf32"])
def test_cudnn_is_right_on_the_gpu(family: Family, variant: str, problem: dict[str, int]) -> None:
    pytest.importorskip("torch")
    from tests.kernels.one_check import check_variant

    check = check_variant(family, family.variant(variant), Point(problem), Point({}))
    assert check.passed, check.message
