"""What a `family.py` is written with."""

from cuprof.family.model import Arrays, Axis, Family, Signature, Tolerance, Tunable, Variant
from cuprof.family.program import Array, Execute, File, Fill, Invoke, Launch, Program, TensorMap, Texture
from cuprof.point import Point

__all__ = [
    "Array",
    "Arrays",
    "Axis",
    "Execute",
    "Family",
    "File",
    "Fill",
    "Invoke",
    "Launch",
    "Point",
    "Program",
    "Signature",
    "TensorMap",
    "Texture",
    "Tolerance",
    "Tunable",
    "Variant",
]
