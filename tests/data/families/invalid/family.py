"""A family whose default lies outside its axis."""

from cuprof import Axis, Family, Signature, Tolerance

family = Family(
    name="invalid",
    title="nothing",
    axes=(Axis("n", default=0, low=1, high=8),),
    signature=lambda problem: Signature({}, {}),
    generate=lambda problem, rng: {},
    reference=lambda problem, inputs: {},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 0,
)


@family.cpu("nothing")
def nothing(problem, tune, inputs, outputs):
    """Do nothing."""
    return lambda: None
