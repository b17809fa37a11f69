"""PyTorch's modules are functions, and arrays of JAX stay JAX's; each library is needed for its own tests alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuprof.api.entry import define
from cuprof.api.snapshot import take_snapshot
from cuprof.families import Family, Point
from cuprof.families.calling import arrange, with_names
from cuprof.families.kernel import kernel

GIVEN = Point(inputs="given")


def bound(folder: Path, *functions: Any, **given: Any) -> Family:
    """Return the family of a call in a notebook, as the worker unpickles it."""
    place = folder / "made"
    place.mkdir(exist_ok=True)
    made: Family = take_snapshot(define([kernel(one) for one in functions], "", place, given, {}), folder).origin.load()
    assert made.sample is not None
    made.learn({GIVEN: made.sample(GIVEN)})
    return made


def results(family: Family, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return what each variant gives, or what it is told."""
    found: dict[str, Any] = {}
    for name, variant in family.variants.items():
        outputs = {key: np.zeros(spec.shape, spec.type) for key, spec in family.known[GIVEN].signature.outputs.items()}
        call = variant.make(GIVEN, Point(), inputs, outputs)
        call()
        try:
            call.deliver()
            found[name] = outputs["result"]
        except ValueError as error:
            found[name] = str(error)
    return found


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def jax() -> Iterator[Any]:
    """JAX with arrays on the host, also beside a GPU."""
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):
        yield jax


def test_modules_optimised_modules_methods_and_callable_objects_are_functions(tmp_path: Path, torch: Any) -> None:
    torch.manual_seed(1)  # a sum near zero may differ in more than its last digits
    layer = torch.nn.Linear(4, 4).eval()

    class Twice(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return 2 * self.layer(x)

        def __len__(self) -> int:
            raise TypeError("it has no length")

    class Counts:
        def __call__(self, x: Any) -> Any:
            return 2 * layer(x)

    class Normed(Twice):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x: Any) -> Any:
            self.norm(x)
            return super().forward(x)

    model = Twice()
    functions = (model, torch.compile(model, backend="eager"), model.forward, Counts(), Normed())
    names = ["Twice", "Twice (compiled)", "forward", "Counts", "Normed"]
    assert [one.name for one in with_names([kernel(each) for each in functions])] == names
    x = torch.rand(3, 4)
    family = bound(tmp_path, *functions, inputs=(x,), reference=model, tolerance=1e-3)
    assert [*family.variants] == names
    right = family.reference(GIVEN, {"x": x.numpy()})["result"]
    assert right.dtype == np.float64
    assert np.allclose(right, model(x).detach().numpy(), rtol=1e-5)
    found = results(family, {"x": x.numpy()})
    assert found.pop("Normed") == (
        "it changed norm.running_mean of its module, which is an input; call eval() on the module first"
    )
    assert all(np.allclose(each, right, rtol=1e-5) for each in found.values())
    assert all(
        np.allclose(each, right, rtol=1e-5) for name, each in results(family, {"x": x.numpy()}).items() if name in found
    )


def test_a_parameter_that_a_variant_changes_is_put_back_for_the_others(tmp_path: Path, torch: Any) -> None:
    shared = torch.nn.Linear(4, 4, bias=False)

    class Spoils(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = shared

        def forward(self, x: Any) -> Any:
            found = self.layer(x)
            with torch.no_grad():
                self.layer.weight.zero_()
            return found

    x = torch.rand(3, 4)
    family = bound(tmp_path, shared, Spoils(), shared.forward, inputs=(x,), reference=shared)
    found = results(family, {"input": x.numpy()})
    assert "it changed layer.weight of its module" in found["Spoils"]
    assert np.array_equal(found["Linear"], found["forward"])
    assert found["forward"].any()


def test_what_torch_compiled_is_compiled_again_where_it_is_measured(tmp_path: Path, torch: Any) -> None:
    def twice(x: Any) -> Any:
        return 2 * x

    x = torch.ones(8)
    family = bound(tmp_path, twice, torch.compile(twice, backend="eager"), inputs=(x,))
    assert [*family.variants] == ["twice", "twice (compiled)"]
    assert all(np.array_equal(each, np.full(8, 2)) for each in results(family, {"x": x.numpy()}).values())


def test_a_jitted_function_beside_itself_is_named_compiled(tmp_path: Path) -> None:
    numba = pytest.importorskip("numba")

    def twice(x: Any) -> Any:
        return 2 * x

    x = np.ones(8)
    family = bound(tmp_path, numba.njit(twice), twice, inputs=(x,))
    assert [*family.variants] == ["twice (compiled)", "twice"]
    alone = with_names([kernel(numba.njit(twice)), kernel(np.add)])
    assert [one.name for one in alone] == ["twice", "add"], "alone it has the name that was typed"


def test_jax_jit_beside_the_function_is_named_compiled(jax: Any) -> None:
    def twice(x: Any) -> Any:
        return 2 * x

    assert [one.name for one in with_names([kernel(twice), kernel(jax.jit(twice))])] == ["twice", "twice (compiled)"]


def test_arrays_of_jax_stay_jaxs(tmp_path: Path, jax: Any) -> None:
    seen: list[str] = []

    def plain(x: Any) -> Any:
        seen.append(type(x).__module__)
        return jax.numpy.tanh(x)

    x = jax.numpy.linspace(0, 1, 64)
    family = bound(tmp_path, plain, jax.jit(lambda x: jax.numpy.tanh(x)), lambda x: np.asarray(x), inputs=(x,))
    sample = family.known[GIVEN]
    assert (sample.home, sample.backend) == ("jax on the host", "cpu")
    host = np.asarray(x)
    found = results(family, {"x": host})
    told = found.pop([*family.variants][2])
    assert told == "it returned result as an array of numpy; the inputs are jax on the host"
    assert all(np.allclose(each, np.tanh(host)) for each in found.values())
    changed = np.array(host) + 1
    assert np.allclose(results(family, {"x": changed})["plain"], np.tanh(changed)), "each execution has its own inputs"


def test_a_reference_of_jax_computes_in_float64(tmp_path: Path, jax: Any) -> None:
    x = jax.numpy.linspace(0, 1, 64)
    family = bound(tmp_path, jax.numpy.tanh, inputs=(x,), reference=jax.numpy.tanh)
    expected = family.reference(GIVEN, {"x": np.asarray(x)})["result"]
    assert expected.dtype == np.float64
    assert np.allclose(expected, np.tanh(np.asarray(x, np.float64)), rtol=1e-14)


def test_arrays_of_jax_are_not_written_to(tmp_path: Path, jax: Any) -> None:
    from cuprof.core.errors import FamilyError

    with pytest.raises(FamilyError, match="arrays of jax on the host cannot be written to; let the functions return"):
        bound(tmp_path, lambda x, y: None, inputs={"x": jax.numpy.ones(4), "y": jax.numpy.ones(4)}, outputs=("y",))


def test_arguments_by_name_are_passed_by_position_as_far_as_that_goes() -> None:
    """What `cupy.fuse` returns has its function's parameters and takes no keywords."""
    names = ["y", "x", "z"]
    assert arrange(lambda x, y: 0, names) == (["x", "y"], [])
    assert arrange(lambda x, *, y: 0, names) == (["x"], ["y"])
    assert arrange(lambda x, block, y, w=0, z=0: 0, names, ["block"]) == (["x"], ["y", "z"])
