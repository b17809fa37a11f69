"""One self-contained HTML page a study: no request leaves it, and two renders of one sweep are the same bytes."""

from cuprof.report.freshness import digest, is_current
from cuprof.report.page import page_name, render, write

__all__ = ["digest", "is_current", "page_name", "render", "write"]
