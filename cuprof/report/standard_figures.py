"""The standard figures of a study, and those that installed packages add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cuprof.core.errors import UsageError
from cuprof.core.plugins import list_plugins, load_plugin
from cuprof.report.figure import Figure, Styles
from cuprof.report.study import Study

GROUP = "cuprof.figures"
"""The entry points' group: a name → a function from a study and its contenders' styles to a figure, several or None."""
BUILT_IN: Mapping[str, str] = {
    "time": "cuprof.report.row_figures:time_figure",
    "bandwidth": "cuprof.report.row_figures:memory_or_rate_figure",
    "light": "cuprof.report.light_figures:light_figure",
    "roofline": "cuprof.report.light_figures:roofline_figure",
    "scaling": "cuprof.report.line_figures:scaling_figure",
    "distribution": "cuprof.report.row_figures:distribution_figure",
    "search": "cuprof.report.tuning_figures:search_figures",
    "tunables": "cuprof.report.tuning_figures:tunables_figures",
}
Made = Figure | Iterable[Figure] | None


def standard_figures(study: Study, styles: Styles) -> list[Figure]:
    """Return the standard figures that this study has data for, the built-in ones first.

    Raises:
        UsageError: a package's figure cannot be loaded, or is not one.
    """
    figures: list[Figure] = []
    for name in list_plugins(GROUP, BUILT_IN):
        make: Callable[[Study, Styles], Made] = load_plugin(GROUP, name, BUILT_IN, "page figure")
        made = make(study, styles)
        found = [made] if isinstance(made, Figure) else list(made or ())
        if any(not isinstance(each, Figure) for each in found):
            raise UsageError(f"the page figure {name!r} gives something else than figures (cuprof.report.figure)")
        figures += found
    return figures
