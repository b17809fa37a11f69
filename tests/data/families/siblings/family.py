"""A family in several files."""

from cuprof import Array, Axis, Family, Signature, Tolerance

from . import steps
from .contract import generate as draw

family = Family(
    name="siblings",
    title="sum",
    axes=(Axis("n", default=8, low=1, high=2**20),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float64")}, {"y": Array((1,), "float64")}),
    generate=draw,
    reference=lambda problem, inputs: {"y": inputs["x"].sum(keepdims=True)},
    tolerance=lambda problem, inputs, reference: Tolerance(relative=1e-12),
    useful_bytes=lambda problem: 8 * problem.n,
)


@family.cpu("eager")
def eager(problem, tune, inputs, outputs):
    """Use a module imported at the top."""
    return lambda: steps.total(inputs["x"], outputs["y"])


@family.cpu("lazy")
def lazy(problem, tune, inputs, outputs):
    """Use a module imported when it is needed."""
    from .late import total

    return lambda: total(inputs["x"], outputs["y"])
