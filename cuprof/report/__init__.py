"""One self-contained HTML page a study: no request leaves it, and two renders of one sweep are the same bytes."""

from cuprof.report.page import render, write, write_report

__all__ = ["render", "write", "write_report"]
