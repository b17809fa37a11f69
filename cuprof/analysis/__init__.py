"""From the store to tables, series and conclusions: typed rows and frozen dataclasses, no devices, no HTML."""

from cuprof.analysis.conclusions import conclude
from cuprof.analysis.counters import counter_section
from cuprof.analysis.load import load_study
from cuprof.analysis.pivot_table import pivot_table
from cuprof.analysis.steps_table import steps_table
from cuprof.analysis.study import Study
from cuprof.analysis.tables import Table
from cuprof.analysis.trials import StudyTrial
from cuprof.analysis.values_table import values_table

__all__ = [
    "Study",
    "StudyTrial",
    "Table",
    "conclude",
    "counter_section",
    "load_study",
    "pivot_table",
    "steps_table",
    "values_table",
]
