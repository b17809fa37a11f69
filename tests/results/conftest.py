"""Reading is tested on the databases of the store's tests, filled with their samples."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))

from databases import kind, postgres, postgres_template, shared_store, sqlite_url, store, url

__all__ = ["kind", "postgres", "postgres_template", "shared_store", "sqlite_url", "store", "url"]
