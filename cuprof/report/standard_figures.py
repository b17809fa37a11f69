"""The standard figures of a study: time, bandwidth or rate, scaling, distribution, a search's, tunables."""

from __future__ import annotations

from cuprof.report.distribution_figure import distribution_figure
from cuprof.report.figure import Figure, Styles
from cuprof.report.scaling_figure import scaling_figure
from cuprof.report.search_figures import search_figures
from cuprof.report.study import Study
from cuprof.report.tunable_figures import tunables_figures
from cuprof.report.variant_figures import memory_or_rate_figure, time_figure


def standard_figures(study: Study, styles: Styles) -> list[Figure]:
    """Return the standard figures that this study has data for."""
    makers = (time_figure, memory_or_rate_figure, scaling_figure, distribution_figure)
    found = [figure for make in makers if (figure := make(study, styles)) is not None]
    return [*found, *search_figures(study), *tunables_figures(study, styles)]
