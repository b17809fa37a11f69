"""The cnn_layer family: every OpenCL variant run for real, the racy one caught, reference and CPU variants."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import correlate

from cuprof.backends.opencl.presence import find_devices
from cuprof.core.errors import MissingDependencyError
from cuprof.core.project import bundled
from cuprof.families import Family, Fill, Launch, Point
from cuprof.families.origin import load_family
from tests.kernels.conftest import CompileVariant
from tests.kernels.often import seldom
from tests.kernels.one_check import check_variant

RIGHT = ("parallel_d2", "local_memory", "local_memory_window", "local_memory_at_once", "unrolled")
RACY = ("racy", "racy_cuda")
WRONG = (*RACY, "local_memory_window_shared", "unrolled_interior")
LAYERS = ("conv1_1", "conv1_2", "conv2_1", "conv2_2", "conv3_1", "conv3_2", "conv4_1", "conv4_2", "conv5")
ODD = ({"N": 1, "D1": 1, "D2": 1}, {"N": 5, "D1": 3, "D2": 7}, {"N": 17, "D1": 2, "D2": 3}, {"N": 9, "D1": 21, "D2": 5})


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family(bundled("kernels") / "cnn_layer")


@pytest.fixture
def opencl() -> None:
    try:
        devices = find_devices()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    if not devices:
        pytest.skip("no OpenCL device (apt install pocl-opencl-icd)")


def tune(family: Family, variant: str, **values: object) -> Point:
    defaults = {tunable.name: tunable.default for tunable in family.variant(variant).tunables}
    return Point({**defaults, **values})


def refusal(family: Family, variant: str, problem: object, **values: object) -> str | None:
    constraint = family.variant(variant).constraint
    return constraint(Point(problem), tune(family, variant, **values)) if constraint else None


def test_the_study_has_its_variants_and_layers(family: Family) -> None:
    assert set(family.variants) == {*WRONG, *RIGHT, "sequential", "cpu_parallel", "cudnn", "torch_cpu"}
    assert [name for name, variant in family.variants.items() if variant.expected == "wrong"] == [*WRONG]
    assert tuple(family.presets) == LAYERS
    repeats = {"conv3_2": 2, "conv4_2": 2, "conv5": 3}
    products = sum(repeats.get(name, 1) * p["D1"] * p["D2"] * 9 * p["N"] ** 2 for name, p in family.presets.items())
    assert products == 313_196_544  # the convolutions of VGG-16 on 32 × 32 images


def test_racy_starts_from_zero_and_ends_with_bias_and_relu(family: Family) -> None:
    program = family.variant("racy").make(Point({"N": 8, "D1": 5, "D2": 3}), tune(family, "racy"))
    fill, add, finish = program.steps
    assert fill == Fill("output", 0)
    assert isinstance(add, Launch)
    assert (add.kernel, add.block, add.grid) == ("add_channel", (8, 8, 1), (1, 8, 3))
    assert isinstance(finish, Launch)
    assert (finish.kernel, finish.block, finish.grid) == ("finish", (64, 1), (1, 3))


@pytest.mark.parametrize("variant", RACY)
def test_racy_is_not_defined_where_no_race_could_show(family: Family, variant: str) -> None:
    assert "nothing to race" in str(refusal(family, variant, {"N": 32, "D1": 1, "D2": 64}))
    assert "fewer than 64 outputs" in str(refusal(family, variant, {"N": 1, "D1": 64, "D2": 63}))
    assert refusal(family, variant, {"N": 2, "D1": 2, "D2": 16}) is None


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100"])
def test_racy_cuda_compiles_with_its_race_in_shared_memory(
    family: Family, compile_variant: CompileVariant, arch: str
) -> None:
    cubin = compile_variant(family, "racy_cuda", Point(family.presets["conv1_2"]), {}, arch)
    assert cubin.kernels["add_channels"].shared_bytes >= 4
    assert cubin.kernels["add_channels"].spill_bytes == 0


def test_local_memory_is_refused_beyond_what_a_group_has(family: Family) -> None:
    layer = {"N": 32, "D1": 64, "D2": 64}
    assert "4096 work-items" in refusal(family, "local_memory", layer, tile=16, features=16)
    assert "264448 bytes" in refusal(family, "local_memory_at_once", layer)
    assert refusal(family, "local_memory_at_once", family.presets["conv1_1"]) is None


@pytest.mark.parametrize("layer", LAYERS)
def test_the_published_window_fits_every_layer_in_groups_of_one(family: Family, layer: str) -> None:
    problem = Point(family.presets[layer])
    program = family.variant("local_memory_window").make(problem, Point())
    (launch,) = program.launches
    assert (launch.block, launch.grid) == ((1, 1), (problem.N**2, problem.D2))
    assert program.defines == {"CHANNELS": problem.D1}
    assert 2 * 4 * 9 * problem.D1 <= 36 * 1024
    assert refusal(family, "local_memory_window", problem) is None


def test_a_window_beyond_local_memory_is_refused(family: Family) -> None:
    assert "49176 bytes" in refusal(family, "local_memory_window", {"N": 8, "D1": 683, "D2": 4})
    assert refusal(family, "local_memory_window", {"N": 8, "D1": 682, "D2": 4}) is None
    assert "overwritten windows" in refusal(family, "local_memory_window_shared", {"N": 2, "D1": 3, "D2": 15})


@pytest.mark.parametrize("layer", LAYERS)
def test_some_choice_of_local_memory_fits_every_layer(family: Family, layer: str) -> None:
    assert refusal(family, "local_memory", family.presets[layer]) is None


def test_tiles_are_no_larger_than_the_planes(family: Family) -> None:
    program = family.variant("local_memory").make(Point({"N": 2, "D1": 8, "D2": 8}), tune(family, "local_memory"))
    assert program.defines["TILE"] == 2
    assert program.launches[0].block == (4, 4)


@pytest.mark.parametrize("problem", [*ODD, {"N": 8, "D1": 16, "D2": 4}], ids=str)
def test_reference_equals_scipys_correlation(family: Family, problem: dict[str, int]) -> None:
    inputs = family.generate(Point(problem), np.random.default_rng(3))
    padded = np.pad(inputs["input"].astype(float), ((0, 0), (1, 1), (1, 1)))
    planes = [
        sum(correlate(plane, taps, "valid") for plane, taps in zip(padded, filters.astype(float), strict=True))
        for filters in inputs["filters"]
    ]
    expected = np.maximum(np.array(planes) + inputs["bias"][:, None, None], 0)
    np.testing.assert_allclose(family.reference(Point(problem), inputs)["output"], expected, rtol=1e-12, atol=1e-12)


def test_tolerance_is_far_below_one_lost_channel(family: Family) -> None:
    for preset in LAYERS:
        problem = Point({**family.presets[preset], "D2": 64})  # each output channel is summed alike
        inputs = family.generate(problem, np.random.default_rng(4))
        reference = family.reference(problem, inputs)
        allowed = family.tolerance(problem, inputs, reference).absolute
        fewer = dict(inputs, input=inputs["input"].copy())
        fewer["input"][0] = 0
        lost = np.abs(family.reference(problem, fewer)["output"] - reference["output"])
        assert np.count_nonzero(lost > allowed) > 0.4 * lost.size


@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize("layer", seldom(LAYERS, ("conv1_1", "conv4_2")))
@pytest.mark.parametrize("variant", RIGHT)
def test_opencl_variants_are_right_on_every_layer(family: Family, variant: str, layer: str) -> None:
    problem = family.presets[layer]
    if refusal(family, variant, problem) is None:
        check = check_variant(family, variant, problem)
        assert check.passed, check.message


@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize("problem", seldom(ODD, ODD[2:]), ids=str)
@pytest.mark.parametrize("variant", RIGHT)
def test_opencl_variants_are_right_on_odd_sizes(family: Family, variant: str, problem: dict[str, int]) -> None:
    check = check_variant(family, variant, problem)
    assert check.passed, check.message


@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize(
    "tunables",
    [
        {"tile": 2, "features": 1, "channels": 1},
        {"tile": 4, "features": 32, "channels": 16},
        {"tile": 16, "features": 4, "channels": 2},
    ],
    ids=str,
)
def test_local_memory_is_right_for_other_tiles(family: Family, tunables: dict[str, int]) -> None:
    check = check_variant(family, "local_memory", {"N": 18, "D1": 19, "D2": 37}, tunables)
    assert check.passed, check.message


@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize("layer", seldom(LAYERS, ("conv1_1", "conv5")))
def test_the_check_catches_the_race_every_time(family: Family, layer: str) -> None:
    for _ in range(3):
        check = check_variant(family, "racy", family.presets[layer])
        assert not check.passed
        assert check.error > 10


@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize("layer", seldom(LAYERS, ("conv1_1", "conv5")))
@pytest.mark.parametrize("group", [32, 256])
def test_the_check_catches_windows_that_a_group_shares(family: Family, group: int, layer: str) -> None:
    check = check_variant(family, "local_memory_window_shared", family.presets[layer], {"group": group})
    assert not check.passed
    assert check.error > 10


@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize("layer", seldom(LAYERS, ("conv1_1", "conv5")))
def test_the_check_catches_the_border_that_the_published_unrolling_leaves(family: Family, layer: str) -> None:
    assert not check_variant(family, "unrolled_interior", family.presets[layer]).passed


@pytest.mark.usefixtures("opencl")
def test_the_check_catches_the_smallest_race(family: Family) -> None:
    for _ in range(5):
        assert not check_variant(family, "racy", {"N": 2, "D1": 2, "D2": 16}).passed


@pytest.mark.parametrize("problem", seldom([*ODD, {"N": 32, "D1": 3, "D2": 64}], ODD[1:3]), ids=str)
@pytest.mark.parametrize("variant", ["sequential", "cpu_parallel"])
def test_cpu_variants_are_right(family: Family, variant: str, problem: dict[str, int]) -> None:
    check = check_variant(family, variant, problem)
    assert check.passed, check.message


@pytest.mark.parametrize("problem", [*ODD, {"N": 32, "D1": 64, "D2": 64}], ids=str)
def test_torch_on_the_cpu_is_right(family: Family, problem: dict[str, int]) -> None:
    pytest.importorskip("torch")
    check = check_variant(family, "torch_cpu", problem)
    assert check.passed, check.message


@pytest.mark.gpu
@pytest.mark.parametrize("layer", LAYERS)
def test_the_check_catches_the_race_in_shared_memory_every_time(family: Family, layer: str) -> None:
    for _ in range(3):
        check = check_variant(family, "racy_cuda", family.presets[layer])
        assert not check.passed
        assert check.error > 10


@pytest.mark.gpu
@pytest.mark.parametrize("layer", LAYERS)
def test_cudnn_is_right(family: Family, layer: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.backends.cudnn.is_available():
        pytest.skip("PyTorch without cuDNN")
    check = check_variant(family, "cudnn", family.presets[layer])
    assert check.passed, check.message
