from __future__ import annotations

import json
from collections.abc import Callable

from cuprof.core.project import Project
from cuprof.store.store import Store
from tests.conftest import Result

Cli = Callable[..., Result]


def test_the_projects_database_is_copied(cli: Cli, project: Project) -> None:
    Store.open(project.database_url).close()
    result = cli("backup", "copy ü.sqlite")
    assert (result.exit_code, result.err) == (0, "")
    assert result.out.startswith("copy ü.sqlite: ")
    assert "MiB, sweeps: 0, runs: 0" in result.out
    assert "exists" in cli("backup", "copy ü.sqlite").err
    told = json.loads(cli("backup", "copy ü.sqlite", "--force", "--json").out)
    assert told["bytes"] == (project.root / "copy ü.sqlite").stat().st_size
    assert cli("query", "sweeps", "--store", "sqlite:///copy ü.sqlite").exit_code == 0


def test_the_projects_settings_are_not_written_over(cli: Cli, project: Project) -> None:
    Store.open(project.database_url).close()
    result = cli("backup", "cuprof.toml", "--force")
    assert (result.exit_code, result.out) == (2, "")
    assert "the file of a project's settings; name another file" in result.err


def test_a_server_is_left_to_its_own_tool(cli: Cli, project: Project) -> None:
    result = cli("backup", "copy.sqlite", "--store", "postgresql://me:hunter2@host/base")
    assert (result.exit_code, result.out) == (2, "")
    assert "pg_dump" in result.err
    assert "hunter2" not in result.err
