"""One self-contained HTML page a study: no request leaves it, and two renders of one sweep are the same bytes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuprof.report.freshness import digest, is_current, page_name
    from cuprof.report.page import render, write

__all__ = ["digest", "is_current", "page_name", "render", "write"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: a study is read without what draws pages."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "page" if name in ("render", "write") else "freshness"
    return getattr(import_module(f"{__name__}.{home}"), name)
