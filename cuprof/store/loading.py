"""Data frames for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def load(name_or_sql: str, url: str | Path | None = None, **params: Any) -> pd.DataFrame:
    """Return a view, a named query or a SELECT as a pandas frame.

    Args:
        name_or_sql: "best", "timings", "SELECT …"; see `cuprof.store.query`.
        url: SQLAlchemy URL, or an SQLite file; None means the database of the project around the current folder.
        **params: values for `:name` places in the SQL.
    """
    from cuprof.project import find_project
    from cuprof.store.queries import query

    if isinstance(url, Path):
        url = f"sqlite:///{url}"
    return query(url or find_project().database_url, name_or_sql, params)
