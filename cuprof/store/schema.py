"""Which revision and which views a database of this cuprof has, told without SQLAlchemy."""

from __future__ import annotations

import hashlib
import json
import re
from typing import NamedTuple

from cuprof.core.project import bundled

VERSION_TABLE = "cuprof_revision"


class View(NamedTuple):
    """A view's name and its CREATE VIEW statement."""

    name: str
    statement: str


def list_views(database: str = "sqlite") -> list[View]:
    """Return the views of db/views in the order in which they can be made (the files are numbered)."""
    views = []
    for path in sorted((bundled("db") / "views").glob("*.sql")):
        name, _, only = re.sub(r"^\d+_", "", path.stem).partition(".")
        if only in ("", database):
            views.append(View(name, path.read_text(encoding="utf-8").strip().rstrip(";")))
    return views


def newest_revision() -> str:
    """Return the number of the newest migration."""
    return max(path.name for path in (bundled("db") / "migrations" / "versions").glob("0*.py"))[:4]


def describe_views(views: list[View]) -> str:
    """Return what a database keeps under the property `views`: their names, and the hash of their files."""
    text = "\0".join(view.name + "\n" + view.statement for view in views)
    return json.dumps({"hash": hashlib.sha256(text.encode()).hexdigest(), "names": [view.name for view in views]})
