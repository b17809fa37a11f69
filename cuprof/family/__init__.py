"""What a `family.py` is written with."""

from cuprof.family.call import Call
from cuprof.family.model import Arrays, Axis, Family, Sample, Scalar, Signature, Tolerance, Tunable, Variant
from cuprof.family.program import Array, Fill, Launch, Program
from cuprof.point import Point

__all__ = [
    "Array",
    "Arrays",
    "Axis",
    "Call",
    "Family",
    "Fill",
    "Launch",
    "Point",
    "Program",
    "Sample",
    "Scalar",
    "Signature",
    "Tolerance",
    "Tunable",
    "Variant",
]
