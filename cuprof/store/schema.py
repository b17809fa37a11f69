"""The revision of this cuprof's tables, and its views, read from db/views."""

from __future__ import annotations

import hashlib
import json
import re
from typing import NamedTuple

from cuprof.core.project import bundled

REVISION = "0009"
"""The newest migration. A database of this revision opens without Alembic."""
VERSION_TABLE = "cuprof_revision"


class View(NamedTuple):
    """A view's name and its CREATE VIEW statement."""

    name: str
    statement: str


def list_views(database: str = "sqlite") -> list[View]:
    """Return the views of db/views in the order of their files' numbers, in which they can be made."""
    views = []
    for path in sorted((bundled("db") / "views").glob("*.sql")):
        name, _, only = re.sub(r"^\d+_", "", path.stem).partition(".")
        if only in ("", database):
            views.append(View(name, path.read_text(encoding="utf-8").strip().rstrip(";")))
    return views


def describe_views(views: list[View]) -> str:
    """Return what a database keeps in its property `views`: the views' names, and the hash of their files."""
    text = "\0".join(view.name + "\n" + view.statement for view in views)
    return json.dumps({"hash": hashlib.sha256(text.encode()).hexdigest(), "names": [view.name for view in views]})
