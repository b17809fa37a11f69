"""The store's tests run on SQLite and on a PostgreSQL server of their own."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the modules beside this file

from databases import kind, postgres, postgres_template, shared_store, sqlite_url, store, url

__all__ = ["kind", "postgres", "postgres_template", "shared_store", "sqlite_url", "store", "url"]
