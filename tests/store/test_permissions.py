"""The files that the store makes are as private as the user's umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_samples import FACTS

from cuprof.store.backup import back_up
from cuprof.store.store import Store


@pytest.fixture
def private_umask() -> Iterator[None]:
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("private_umask")
def test_under_a_private_umask_everything_is_the_users_alone(tmp_path: Path) -> None:
    file, copy = tmp_path / "db" / "deep" / "cuprof.sqlite", tmp_path / "copy.sqlite"
    with Store.open(f"sqlite:///{file}") as store:
        store.begin_sweep(FACTS)
        made = [file, *file.parent.glob("cuprof.sqlite-*")]
        assert len(made) == 3
        assert {mode(path) for path in made} == {0o600}
    assert {mode(folder) for folder in (file.parent, file.parent.parent)} == {0o700}
    back_up(f"sqlite:///{file}", copy)
    assert mode(copy) == 0o600


def test_a_copy_is_no_more_open_than_its_database(tmp_path: Path) -> None:
    file, copy = tmp_path / "cuprof.sqlite", tmp_path / "copy.sqlite"
    Store.open(f"sqlite:///{file}").close()
    file.chmod(0o600)
    back_up(f"sqlite:///{file}", copy)
    assert mode(copy) == 0o600
