"""No command tells a password, whichever way it was typed and whatever is wrong with the URL."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product

import pytest

from cuprof.core.project import Project
from tests.conftest import Result
from tests.core.typed_passwords import FORMS, SECRETS, leaks, type_url

Cli = Callable[..., Result]
URLS = [type_url(form, secret) for form, secret in product(FORMS, SECRETS)]
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "query": lambda url: ["query", "best", "--store", url],
    "compare": lambda url: ["compare", "latest~1", "latest", "--json", "--store", url],
    "side": lambda url: ["compare", url, f"{url}#3"],
    "report": lambda url: ["report", "experiment=reduction", f'store.url="{url}"', "output=json"],
    "preview": lambda url: ["sweep", "experiment=reduction", f"store.url={url}", "dry_run=true", "device=cpu"],
    "import": lambda url: ["ncu-import", "none.ncu-rep", "--store", url],
}


def check(cli: Cli, argv: list[str]) -> None:
    result = cli(*argv)
    assert not leaks(result.out + result.err), (argv, result)
    assert result.exit_code == 2, (argv, result)
    assert len(result.err.splitlines()) == 1, (argv, result)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("step", [19, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_a_command(cli: Cli, project: Project, command: str, step: int) -> None:
    for url in URLS[::step]:
        check(cli, COMMANDS[command](url))


def test_a_password_that_ends_the_quotes_of_a_setting(cli: Cli, project: Project) -> None:
    check(cli, ["report", "experiment=reduction", f'store.url="{type_url(FORMS[0], SECRETS[6])}"'])


def test_doctor(cli: Cli, project: Project) -> None:
    for url in URLS[::13]:
        (project.root / "cuprof.toml").write_text(f"database = {json.dumps(url, ensure_ascii=False)}\n")
        for options in ([], ["--json"]):
            result = cli("doctor", *options)
            assert not leaks(result.out + result.err), (url, result)
            assert (result.exit_code, result.err) == (1, ""), (url, result)
