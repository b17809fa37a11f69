"""Everything that is computed from samples: medians and their intervals, contrasts of series, verdicts, noise.

It knows no trial, no sweep and no database, so that sampling, comparisons, pages and tables give one answer to one
question. SciPy is imported by the functions that need it: its import takes longer than the start of a command.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
