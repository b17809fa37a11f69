"""What the user sees: progress while a sweep runs, tables when it is done."""

from cuprof.engine.observer import Observer

__all__ = ["Observer"]
