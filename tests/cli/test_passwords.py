"""No command tells a password, whichever way it was typed and whatever is wrong with the URL."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product

import pytest

from cuprof.config.overrides import quoted
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


@pytest.mark.parametrize(
    "words", [["ncu-import"], ["backup"], ["query", "best", "--store"], ["sweep", "reduction", "--config-dir"]]
)
@pytest.mark.parametrize("url", ["postgresql://me:hunter2@127.0.0.1:1/base", "postgresql:///me:hunter2@h/base"])
def test_a_url_in_place_of_a_file_and_one_with_a_slash_too_many(
    cli: Cli, project: Project, words: list[str], url: str
) -> None:
    check(cli, [*words, url])


def test_doctor(cli: Cli, project: Project) -> None:
    for number, url in enumerate(URLS[::13]):
        (project.root / "cuprof.toml").write_text(f"database = {json.dumps(url, ensure_ascii=False)}\n")
        result = cli("doctor", *["--json"] * (number % 2))
        assert not leaks(result.out + result.err), (url, result)
        assert (result.exit_code, result.err) == (1, ""), (url, result)


SHOWN = [
    ["--cfg", "job"],
    ["--cfg", "all"],
    ["--cfg", "job", "--package", "store"],
    ["--info"],
]  # which shows all that each word after it does


@pytest.mark.parametrize("options", SHOWN, ids=" ".join)
def test_a_configuration_that_is_shown(cli: Cli, project: Project, options: list[str]) -> None:
    urls = [type_url(FORMS[0], secret) for secret in SECRETS]
    if options != SHOWN[0]:
        urls = [*URLS[40::40], "//u:hunter2@h/d"]
    for number, url in enumerate(urls):
        setting = ["--store", url] if number % 2 else [f"store.url={quoted(url)}"]  # both ends in the same setting
        result = cli("sweep", *setting, *options)
        assert result.exit_code == 0, result
        assert "***" in result.out
        assert not leaks(result.out + result.err), (url, result)


def test_a_configuration_file_that_is_shown(cli: Cli, project: Project) -> None:
    url = type_url(FORMS[0], f"a long password {SECRETS[5]} that YAML folds over two lines, {SECRETS[0]}: {SECRETS[0]}")
    (project.root / "conf/store").mkdir(parents=True)
    (project.root / "conf/store/mine.yaml").write_text(json.dumps({"url": url}))
    result = cli("sweep", "store=mine", "--cfg", "job")
    assert result.exit_code == 0
    assert "me:***@127.0.0.1:1/base" in result.out
    assert "family: reduction" in result.out
    assert not leaks(result.out + result.err)


def test_a_setting_of_a_job(cli: Cli, project: Project) -> None:
    result = cli(
        "sweep",
        "-m",
        "store.url='//u:hunter2@127.0.0.1/db','x//u:hunter2@h/db'",
        "experiment=reduction",
        "dry_run=true",
    )
    assert result.exit_code == 2
    assert "job 0: store.url='//u:***@127.0.0.1/db'" in result.err
    assert not leaks(result.out + result.err)


@pytest.mark.parametrize(
    "options", ["port=1 2", "pass word=hunter2", "passw+ord=hunter2", "application_name=a b&pass word=hunter2", "a b=1"]
)
def test_options_of_a_url_with_a_space(cli: Cli, project: Project, options: str) -> None:
    check(cli, ["query", "best", "--store", f"postgresql://me:hunter2@127.0.0.1:1/base?{options}"])
