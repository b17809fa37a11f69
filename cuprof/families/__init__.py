"""The names to write a `family.py` with."""

from cuprof.core.point import Point as Point
from cuprof.families.model import *  # noqa: F403
from cuprof.families.program import *  # noqa: F403

__all__ = [name for name in globals() if name[0].isupper()]
