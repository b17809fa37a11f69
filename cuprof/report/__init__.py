"""One self-contained HTML page a study: no request leaves it, and two renders of one sweep are the same bytes."""

from cuprof.report.page import page_name, render, write

__all__ = ["page_name", "render", "write"]
