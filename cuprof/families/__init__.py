"""The names to write a `family.py` with."""

from cuprof.core.point import Point as Point
from cuprof.families.model import Arrays as Arrays
from cuprof.families.model import Axis as Axis
from cuprof.families.model import Call as Call
from cuprof.families.model import Chance as Chance
from cuprof.families.model import Family as Family
from cuprof.families.model import Sample as Sample
from cuprof.families.model import Scalar as Scalar
from cuprof.families.model import Signature as Signature
from cuprof.families.model import Tolerance as Tolerance
from cuprof.families.model import Tolerances as Tolerances
from cuprof.families.model import Tunable as Tunable
from cuprof.families.model import Variant as Variant
from cuprof.families.model import Verdict as Verdict
from cuprof.families.program import Array as Array
from cuprof.families.program import Copy as Copy
from cuprof.families.program import Execute as Execute
from cuprof.families.program import File as File
from cuprof.families.program import Fill as Fill
from cuprof.families.program import Invoke as Invoke
from cuprof.families.program import Launch as Launch
from cuprof.families.program import Program as Program
from cuprof.families.program import Reduced as Reduced
from cuprof.families.program import Repeat as Repeat
from cuprof.families.program import TensorMap as TensorMap
from cuprof.families.program import Texture as Texture

__all__ = [name for name in globals() if name[0].isupper()]
