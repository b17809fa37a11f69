"""Fixtures of tests that run on SQLite and on a PostgreSQL server of their own."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from throwaway_postgres import Server, find_binaries

from cuprof.store.store import Store

_numbers = itertools.count()
KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server programs (initdb, pg_ctl) on this machine")
    server = Server(binaries)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return name_file(tmp_path)


def name_file(folder: Path) -> str:
    return f"sqlite:///{folder / 'with space' / 'café 100% #1?.sqlite'}"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str:
    """Return the URL of a database without tables; not the one of `store`."""
    if kind == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    return request.getfixturevalue("postgres").make_database(f"test_{next(_numbers)}")


@pytest.fixture(scope="session")
def postgres_template(postgres: Server) -> str:
    Store.open(postgres.make_database("template_of_tests")).close()
    return "template_of_tests"


@pytest.fixture
def store(request: pytest.FixtureRequest, kind: str, sqlite_url: str) -> Iterator[Store]:
    """Yield an empty store with a file, or a database, of its own."""
    yield from iter_store(request, kind, sqlite_url)


@pytest.fixture(scope="module", params=KINDS)
def shared_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield an empty store that the tests of a module share, which only read what one fixture writes to it."""
    yield from iter_store(request, request.param, name_file(tmp_path_factory.mktemp("shared")))


def iter_store(request: pytest.FixtureRequest, kind: str, url: str) -> Iterator[Store]:
    """Yield an empty store, in a file of this URL or in a database of its own."""
    if kind == "sqlite":
        path = Path(url.removeprefix("sqlite:///"))
        path.parent.mkdir()
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
    else:
        template = request.getfixturevalue("postgres_template")
        url = request.getfixturevalue("postgres").make_database(f"test_{next(_numbers)}", template)
    with Store.open(url) as opened:
        yield opened
