"""Everything that is computed from samples: medians and their intervals, contrasts of series, verdicts, noise.

It knows no trial, no sweep and no database, so that sampling, comparisons, pages and tables give one answer to one
question. SciPy is imported by the functions that need it: its import takes longer than the start of a command.
"""

from cuprof.statistics.contrasts import Contrasts, contrast
from cuprof.statistics.median import is_mere_range, sure_time
from cuprof.statistics.noise import Noise
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Judgement, Rule, Verdict, judge

__all__ = [
    "Contrasts",
    "Judgement",
    "Noise",
    "Rule",
    "Samples",
    "Verdict",
    "contrast",
    "is_mere_range",
    "judge",
    "sure_time",
]
