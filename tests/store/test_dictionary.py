"""The data dictionary names every table, view and column, and nothing that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from cuprof.core.project import bundled
from cuprof.store.migrate import VERSION_TABLE
from cuprof.store.store import Store

COMMON = "Views"


@pytest.fixture(scope="module")
def relations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('dictionary') / 'a.sqlite'}") as store:
        inspector = sa.inspect(store.engine)
        names = [*inspector.get_table_names(), *inspector.get_view_names()]
        return {name: [column["name"] for column in inspector.get_columns(name)] for name in names}


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    text = (bundled("db") / "DICTIONARY.md").read_text(encoding="utf-8")
    parts = re.split(r"^##+ (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def words(section: str) -> set[str]:
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {word.strip() for row in rows for word in row.split(",")} | set(re.findall(r"`([^`\s]+)`", section))


def test_every_table_view_and_column_is_explained(relations: dict[str, list[str]], sections: dict[str, str]) -> None:
    views = {path.stem.partition("_")[2].partition(".")[0] for path in (bundled("db") / "views").glob("*.sql")}
    missing = []
    for name, columns in relations.items():
        if name == VERSION_TABLE:
            continue
        known = words(sections.get(name, "")) | (words(sections[COMMON]) if name in views else set())
        missing += [f"{name}.{column}" for column in columns if column not in known]
    assert missing == []


def test_nothing_is_explained_that_does_not_exist(relations: dict[str, list[str]], sections: dict[str, str]) -> None:
    for name, section in sections.items():
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ") and "column |" not in line]
        named = {word.strip() for row in rows for word in row.split(",")}
        existing = {column for columns in relations.values() for column in columns} if name == COMMON else set()
        assert named - existing - set(relations.get(name, [])) == set(), name


def test_named_queries_and_views_say_what_they_are() -> None:
    for path in [*(bundled("db") / "queries").glob("*.sql"), *(bundled("db") / "views").glob("*.sql")]:
        first = Path(path).read_text(encoding="utf-8").splitlines()[0]
        assert re.fullmatch(r"-- [A-Z].+", first), path.name
