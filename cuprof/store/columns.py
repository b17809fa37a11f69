"""The name under which the report still imports what became `cuprof.store.types`."""

from cuprof.store.types import plain

__all__ = ["plain"]
