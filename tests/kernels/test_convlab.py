"""The convlab family: block shapes, geometry, resources on every architecture, reference and CPU variants."""

from __future__ import annotations

import itertools
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
WINDOWS = ("direct_global", "direct_constant", "direct_shared", "direct_ldg")
ONE_KERNEL = ("im2col_global", "im2col_constant")
TWO_LAUNCHES = ("im2col_two_global", "im2col_two_constant")
COLUMNS = (*ONE_KERNEL, *TWO_LAUNCHES)
GPU_TUNABLES = ({}, {"partition": "row", "block": 64}, {"partition": "column", "block": 128})
SMALL = ((1, 1), (3, 3), (7, 7), (9, 1), (13, 3), (20, 5), (33, 7))


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family(bundled("kernels") / "convlab")


def tune(family: Family, variant: str, **values: object) -> Point:
    defaults = {tunable.name: tunable.default for tunable in family.variant(variant).tunables}
    return Point({**defaults, **values})


def program_of(family: Family, variant: str, n: int, k: int = 3, **values: object):
    return family.variant(variant).make(Point({"N": n, "K": k}), tune(family, variant, **values))


def list_tunables(family: Family, variant: str, problem: Point) -> list[Point]:
    """Return every choice of tunables that is defined for a problem."""
    tunables = family.variant(variant).tunables
    constraint = family.variant(variant).constraint
    chosen = itertools.product(*(tunable.values for tunable in tunables))
    points = [Point(dict(zip((tunable.name for tunable in tunables), values, strict=True))) for values in chosen]
    return [point for point in points if constraint is None or constraint(problem, point) is None]


def test_the_study_has_its_variants(family: Family) -> None:
    assert list(family.variants) == [
        *("direct_global", "direct_constant", "direct_shared", "direct_ldg", *COLUMNS),
        *("cudnn", "cudnn_implicit_gemm", "cpu", "cpu_parallel"),
    ]
    assert family.get_baseline() == "direct_global"


@pytest.mark.parametrize(
    ("partition", "block", "shape"),
    [
        ("row", 256, (256, 1)),
        ("column", 256, (1, 256)),
        ("tile", 256, (16, 16)),
        ("tile", 1024, (16, 64)),
    ],
)
@pytest.mark.parametrize("variant", WINDOWS)
def test_partition_decides_the_shape_of_a_block(
    family: Family, variant: str, partition: str, block: int, shape: tuple[int, int]
) -> None:
    program = program_of(family, variant, 1024, partition=partition, block=block)
    kernel = variant if variant in ("direct_shared", "direct_ldg") else "direct"
    grid = (-(-1022 // shape[0]), -(-1022 // shape[1]))
    assert program.steps == (Launch(kernel, grid, shape, ("image", "output", 1024)),)
    assert (program.defines["BLOCK_X"], program.defines["BLOCK_Y"]) == shape
    assert program.constants == {"taps": "filters"}


@pytest.mark.parametrize("variant", ONE_KERNEL)
@pytest.mark.parametrize("k", [1, 3, 5, 7])
def test_im2col_is_one_launch_a_thread_an_output(family: Family, variant: str, k: int) -> None:
    program = program_of(family, variant, 100, k, block=128)
    count = (101 - k) ** 2
    assert program.steps == (Launch("im2col", (-(-count // 128),), (128,), ("image", "columns", "output", 100)),)
    assert program.scratch == {"columns": Array((3 * k * k, count), "float32")}


@pytest.mark.parametrize("variant", TWO_LAUNCHES)
@pytest.mark.parametrize("k", [1, 3, 5, 7])
def test_im2col_in_two_launches_lays_out_every_window_and_multiplies(family: Family, variant: str, k: int) -> None:
    program = program_of(family, variant, 100, k, block=128)
    rows, count = 3 * k * k, (101 - k) ** 2
    blocks = -(-count // 128)
    assert program.steps == (
        Launch("im2col", (blocks, rows), (128,), ("image", "columns", 100)),
        Launch("multiply", (blocks,), (128,), ("columns", "output", count)),
    )
    assert program.scratch == {"columns": Array((rows, count), "float32")}


@pytest.mark.parametrize(
    ("variant", "values", "space"),
    [
        ("direct_global", {}, "__device__"),
        ("direct_constant", {}, "__constant__"),
        ("im2col_global", {}, "__device__"),
        ("im2col_constant", {}, "__constant__"),
        ("im2col_two_global", {}, "__device__"),
        ("im2col_two_constant", {}, "__constant__"),
        ("direct_shared", {"filter_memory": "global"}, "__device__"),
        ("direct_shared", {"filter_memory": "constant"}, "__constant__"),
        ("direct_ldg", {"filter_memory": "global"}, "__device__"),
        ("direct_ldg", {"filter_memory": "constant"}, "__constant__"),
    ],
)
def test_the_filter_lives_where_the_variant_says(
    family: Family, variant: str, values: dict[str, str], space: str
) -> None:
    program = program_of(family, variant, 64, **values)
    assert program.defines["FILTER_SPACE"] == space
    assert program.defines["FILTER_IS_GLOBAL"] == (space == "__device__")


def test_choices_that_repeat_another_one_are_refused(family: Family) -> None:
    problem = Point({"N": 64, "K": 3})
    check = family.variant("direct_global").constraint
    assert "has no tile" in check(problem, Point({"block": 256, "partition": "row", "tile_x": 32}))
    assert "partition=row" in check(problem, Point({"block": 32, "partition": "tile", "tile_x": 32}))
    assert check(problem, Point({"block": 64, "partition": "tile", "tile_x": 32})) is None
    assert check(problem, Point({"block": 256, "partition": "column", "tile_x": 16})) is None
    shapes = [
        program_of(family, "direct_global", 64, **point).launches[0].block
        for point in list_tunables(family, "direct_global", problem)
    ]
    assert len(shapes) == len(set(shapes)) == 29


@pytest.mark.parametrize(("k", "block", "fits"), [(3, 1024, True), (5, 1024, False), (7, 512, True), (7, 1024, False)])
@pytest.mark.parametrize("partition", ["row", "column"])
def test_a_tile_beyond_static_shared_memory_is_refused(
    family: Family, partition: str, k: int, block: int, fits: bool
) -> None:
    chosen = tune(family, "direct_shared", partition=partition, block=block)
    reason = family.variant("direct_shared").constraint(Point({"N": 2048, "K": k}), chosen)
    assert (reason is None) is fits
    assert fits or f"needs {12 * (block + k - 1) * k} bytes of shared memory" in reason


def test_an_image_smaller_than_the_filter_is_refused(family: Family) -> None:
    assert "N=6 is smaller" in family.constraint(Point({"N": 6, "K": 7}))
    assert family.constraint(Point({"N": 7, "K": 7})) is None


def test_no_problem_on_the_axes_leaves_the_limits_of_a_launch(family: Family) -> None:
    largest = Point({"N": family.axis("N").high, "K": 1})
    for variant in (*WINDOWS, *COLUMNS):
        for point in list_tunables(family, variant, largest):
            for launch in family.variant(variant).make(largest, point).launches:
                assert launch.grid[0] < 2**31
                assert max((*launch.grid, 1)[1:]) <= 65535
    assert 3 * largest.N**2 < 2**31  # the kernels index the image with 32 bits


@pytest.mark.parametrize("arch", seldom(ARCHITECTURES, ("sm_75", "sm_90")))
@pytest.mark.parametrize("k", seldom((1, 3, 7), (1, 7)))
@pytest.mark.parametrize("variant", [*WINDOWS, *COLUMNS])
def test_kernels_compile_without_spills_and_keep_the_filter(
    family: Family, compile_variant: CompileVariant, variant: str, k: int, arch: str
) -> None:
    cubin = compile_variant(family, variant, Point({"N": 128, "K": k}), {}, arch)
    tile = 12 * (16 + k - 1) ** 2 if variant == "direct_shared" else 0
    for facts in cubin.kernels.values():
        assert facts.spill_bytes == 0
        assert facts.stack_bytes == 0
        assert facts.shared_bytes == tile
        assert 0 < facts.registers * 256 <= 65536
    assert b"\0taps\0" in cubin.image, "the filter's symbol is gone, nothing could be copied into it"


def test_the_largest_tile_compiles(family: Family, compile_variant: CompileVariant) -> None:
    tunables = {"partition": "row", "block": 512}
    cubin = compile_variant(family, "direct_shared", Point({"N": 2048, "K": 7}), tunables, "sm_75")
    assert cubin.kernels["direct_shared"].shared_bytes == 12 * 518 * 7


@pytest.mark.parametrize(("n", "k"), [*SMALL, (150, 3)])
def test_reference_equals_scipys_correlation(family: Family, n: int, k: int) -> None:
    problem = Point({"N": n, "K": k})
    inputs = family.generate(problem, np.random.default_rng(8))
    planes = [
        correlate2d(plane.astype(float), weights.astype(float), "valid")
        for plane, weights in zip(inputs["image"], inputs["filters"], strict=True)
    ]
    np.testing.assert_allclose(family.reference(problem, inputs)["output"], sum(planes), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("n", "k"), SMALL)
@pytest.mark.parametrize("variant", ["cpu", "cpu_parallel"])
def test_cpu_variants_are_right_and_repeatable(family: Family, variant: str, n: int, k: int) -> None:
    problem = Point({"N": n, "K": k})
    inputs = family.generate(problem, np.random.default_rng(9))
    expected = family.reference(problem, inputs)["output"]
    allowed = family.tolerance(problem, inputs, {"output": expected}).absolute
    outputs = {"output": np.full(expected.shape, np.nan, np.float32)}
    run = family.variant(variant).make(problem, Point({}), inputs, outputs)
    assert np.isnan(outputs["output"]).all(), "preparation computed the result"
    for _ in range(2):
        run()
        assert np.abs(outputs["output"] - expected).max() <= allowed


@pytest.mark.parametrize("k", [1, 3, 7])
def test_tolerance_catches_a_shift_by_one_pixel_and_exchanged_channels(family: Family, k: int) -> None:
    problem = Point({"N": 40, "K": k})
    inputs = family.generate(problem, np.random.default_rng(10))
    expected = family.reference(problem, inputs)["output"]
    allowed = family.tolerance(problem, inputs, {"output": expected}).absolute
    shifted = dict(inputs, image=np.roll(inputs["image"], 1, axis=2))
    exchanged = dict(inputs, image=inputs["image"][[1, 0, 2]])
    for wrong in (shifted, exchanged):
        assert np.abs(family.reference(problem, wrong)["output"] - expected).max() > 100 * allowed


def test_useful_work_counts_each_array_once(family: Family) -> None:
    problem = Point({"N": 50, "K": 5})
    signature = family.signature(problem)
    arrays = (*signature.inputs.values(), *signature.outputs.values())
    assert family.useful_bytes(problem) == sum(array.nbytes for array in arrays)
    assert family.flops(problem) == 2 * 75 * 46 * 46


def test_the_study_reads_every_published_number(family: Family) -> None:
    values = read_published(load_experiment(bundled("experiments") / "convlab"))
    assert {value.variant for value in values} <= set(family.variants)
    assert len(values) == 40
    found = {(value.table, value.variant, value.problem["N"]): value.value for value in values}
    assert found["global_memory", "direct_global", 2048] == pytest.approx(478e3)
    assert found["constant_memory", "direct_constant", 2048] == pytest.approx(366e3)


def test_the_experiment_sweeps_what_the_variants_have(family: Family) -> None:
    import yaml

    composed = yaml.safe_load((bundled("conf") / "experiment" / "convlab.yaml").read_text())
    assert composed["problem"] == {"N": [128, 256, 512, 1024, 2048], "K": [3]}
    for name, values in composed["tune"].items():
        allowed = family.variant("direct_global").tunable(name).values
        assert set(values) <= set(allowed)


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "k"), [*SMALL, (64, 3), (1000, 7), (1024, 3)])
@pytest.mark.parametrize("values", GPU_TUNABLES, ids=str)
@pytest.mark.parametrize("variant", [*WINDOWS, *COLUMNS])
def test_kernels_are_right_on_the_gpu(family: Family, variant: str, values: dict[str, object], n: int, k: int) -> None:
    from tests.kernels.one_check import check_variant

    known = {name: value for name, value in values.items() if family.variant(variant).tunable(name)}
    check = check_variant(family, family.variant(variant), Point({"N": n, "K": k}), tune(family, variant, **known))
    assert check.passed, check.message


@pytest.mark.gpu
@pytest.mark.parametrize("variant", [*WINDOWS, *COLUMNS])
def test_every_choice_of_tunables_is_right_on_the_gpu(family: Family, variant: str) -> None:
    from tests.kernels.one_check import check_variant

    problem = Point({"N": 257, "K": 5})
    for point in list_tunables(family, variant, problem):
        check = check_variant(family, family.variant(variant), problem, point)
        assert check.passed, f"{point.label}: {check.message}"


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "k"), [*SMALL, (1024, 3), (257, 5)])
@pytest.mark.parametrize("variant", ["cudnn", "cudnn_implicit_gemm"])
def test_cudnn_is_right_on_the_gpu(family: Family, variant: str, n: int, k: int) -> None:
    for module in family.variant(variant).requires:
        pytest.importorskip(module)
    from tests.kernels.one_check import check_variant

    check = check_variant(family, family.variant(variant), Point({"N": n, "K": k}), Point({}))
    assert check.passed, check.message
