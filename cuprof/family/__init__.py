"""What a `family.py` is written with."""

from cuprof.family.call import Call
from cuprof.family.model import (
    Arrays,
    Axis,
    Chance,
    Family,
    Sample,
    Scalar,
    Signature,
    Tolerance,
    Tolerances,
    Tunable,
    Variant,
    Verdict,
)
from cuprof.family.program import Array, Execute, File, Fill, Invoke, Launch, Program, TensorMap, Texture
from cuprof.point import Point

__all__ = [
    "Array",
    "Arrays",
    "Axis",
    "Call",
    "Chance",
    "Execute",
    "Family",
    "File",
    "Fill",
    "Invoke",
    "Launch",
    "Point",
    "Program",
    "Sample",
    "Scalar",
    "Signature",
    "TensorMap",
    "Texture",
    "Tolerance",
    "Tolerances",
    "Tunable",
    "Variant",
    "Verdict",
]
