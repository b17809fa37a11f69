"""The revision of this cuprof's tables, and its views, read from db/views."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from cuprof.core.project import bundled

REVISION = "0009"
"""The newest migration. A database of this revision opens without Alembic."""
VERSION_TABLE = "cuprof_revision"


def list_views(database: str = "sqlite") -> dict[str, str]:
    """Return the views of db/views, name → CREATE VIEW statement, in the order in which they can be made.

    That is the order of their files' numbers.
    """
    views = {}
    for path in sorted((bundled("db") / "views").glob("*.sql")):
        name, _, only = re.sub(r"^\d+_", "", path.stem).partition(".")
        if only in ("", database):
            views[name] = path.read_text(encoding="utf-8").strip().rstrip(";")
    return views


def describe_views(views: Mapping[str, str]) -> str:
    """Return what a database keeps in its property `views`: the views' names, and the hash of their files."""
    text = "\0".join(f"{name}\n{statement}" for name, statement in views.items())
    return json.dumps({"hash": hashlib.sha256(text.encode()).hexdigest(), "names": [*views]})
