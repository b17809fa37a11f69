"""Everything that is reckoned of samples: medians and their intervals, contrasts of two series, verdicts, noise.

It knows no trial, no sweep and no database, so that sampling, comparisons, pages and tables have one figure for one
question. SciPy is imported by the functions that need it: its import takes longer than the start of a command.
"""

from cuprof.statistics.contrast import Contrast, contrast
from cuprof.statistics.median import is_mere_range, sure_time
from cuprof.statistics.noise import Noise
from cuprof.statistics.series import Series
from cuprof.statistics.verdict import Judgement, Rule, Verdict, judge

__all__ = [
    "Contrast",
    "Judgement",
    "Noise",
    "Rule",
    "Series",
    "Verdict",
    "contrast",
    "is_mere_range",
    "judge",
    "sure_time",
]
