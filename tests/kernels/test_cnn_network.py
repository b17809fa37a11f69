"""The cnn_network family: every layer of a CIFAR-10 VGG-16, reference, sequential variant and libraries."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from cuprof.core.project import bundled
from cuprof.families import Family, Point
from cuprof.families.origin import load_family
from tests.kernels.one_check import check_variant

ODD = (
    {"layer": "conv", "N": 5, "D1": 3, "D2": 7},
    {"layer": "pool", "N": 6, "D1": 3, "D2": 3},
    {"layer": "dense", "N": 1, "D1": 11, "D2": 5},
)
SMALL = ("conv1_1", "pool1", "pool5", "fc1", "fc3")


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family(bundled("kernels") / "cnn_network")


def test_the_layers_are_those_of_the_study_and_what_lies_between(family: Family) -> None:
    layers = load_family(bundled("kernels") / "cnn_layer").presets
    convolutions = {name: preset for name, preset in family.presets.items() if preset["layer"] == "conv"}
    assert {name: {**preset, "layer": "conv"} for name, preset in layers.items()} == convolutions
    assert [name for name, preset in family.presets.items() if preset["layer"] == "pool"] == [
        f"pool{number}" for number in range(1, 6)
    ]
    composed = yaml.safe_load((bundled("conf") / "experiment" / "cnn_network.yaml").read_text())
    assert composed["problem"]["preset"] == list(family.presets)


def test_shapes_that_no_layer_has_are_refused(family: Family) -> None:
    assert "even side" in family.constraint(Point({"layer": "pool", "N": 5, "D1": 3, "D2": 3}))
    assert "keeps its channels" in family.constraint(Point({"layer": "pool", "N": 4, "D1": 3, "D2": 4}))
    assert "takes a vector" in family.constraint(Point({"layer": "dense", "N": 2, "D1": 3, "D2": 4}))
    assert all(family.constraint(Point(problem)) is None for problem in (*ODD, *family.presets.values()))


def test_a_convolution_is_that_of_cnn_layer(family: Family) -> None:
    other = load_family(bundled("kernels") / "cnn_layer")
    problem = Point({"N": 9, "D1": 4, "D2": 5})
    inputs = other.generate(problem, np.random.default_rng(2))
    renamed = {"input": inputs["input"], "weights": inputs["filters"], "bias": inputs["bias"]}
    found = family.reference(Point({"layer": "conv", **dict(problem)}), renamed)["output"]
    np.testing.assert_allclose(found, other.reference(problem, inputs)["output"], rtol=1e-12, atol=1e-12)


def test_pooling_and_dense_references(family: Family) -> None:
    pool, dense = Point(ODD[1]), Point(ODD[2])
    inputs = family.generate(pool, np.random.default_rng(3))
    expected = [[plane[y : y + 2, x : x + 2].max() for y in (0, 2, 4) for x in (0, 2, 4)] for plane in inputs["input"]]
    np.testing.assert_array_equal(family.reference(pool, inputs)["output"].reshape(3, 9), expected)
    inputs = family.generate(dense, np.random.default_rng(4))
    sums = inputs["weights"].astype(float) @ inputs["input"] + inputs["bias"]
    np.testing.assert_allclose(family.reference(dense, inputs)["output"], np.maximum(sums, 0), rtol=1e-12)


@pytest.mark.parametrize("problem", [*ODD, *SMALL], ids=str)
def test_the_sequential_layers_are_right(family: Family, problem: dict[str, object] | str) -> None:
    chosen = family.presets[problem] if isinstance(problem, str) else problem
    check = check_variant(family, "sequential", chosen)
    assert check.passed, check.message


@pytest.mark.parametrize("problem", [*ODD, *SMALL], ids=str)
def test_torch_on_the_cpu_is_right(family: Family, problem: dict[str, object] | str) -> None:
    pytest.importorskip("torch")
    chosen = family.presets[problem] if isinstance(problem, str) else problem
    check = check_variant(family, "torch_cpu", chosen)
    assert check.passed, check.message


@pytest.mark.gpu
def test_cudnn_is_right_on_every_layer(family: Family) -> None:
    torch = pytest.importorskip("torch")
    if not torch.backends.cudnn.is_available():
        pytest.skip("PyTorch without cuDNN")
    for name, preset in family.presets.items():
        check = check_variant(family, "cudnn", preset)
        assert check.passed, f"{name}: {check.message}"
