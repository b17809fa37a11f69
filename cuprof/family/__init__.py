"""What a `family.py` is written with."""

from cuprof.family.model import Arrays, Axis, Family, Signature, Tolerance, Tunable, Variant
from cuprof.family.program import Array, Fill, Launch, Program
from cuprof.point import Point

__all__ = [
    "Array",
    "Arrays",
    "Axis",
    "Family",
    "Fill",
    "Launch",
    "Point",
    "Program",
    "Signature",
    "Tolerance",
    "Tunable",
    "Variant",
]
