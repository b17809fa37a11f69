"""No form in which a password can be typed leaves a part of it behind."""

from __future__ import annotations

import random
import re
import shlex

import pytest
from sqlalchemy.engine import URL

from cuprof.core.errors import StoreError
from cuprof.core.text import hide_folded_passwords, hide_in_command, hide_in_data, hide_passwords
from cuprof.store.connection import parse_url, show
from tests.core.typed_passwords import FORMS, SECRETS, leaks, type_url


def told_of(url: str) -> str:
    try:
        return show(parse_url(url))
    except StoreError as error:
        return str(error)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_of_a_password_is_left(form: str, secret: str) -> None:
    url = type_url(form, secret)
    for text in (url, f"store.url={url}", f"store.url='{url}'", f'database = "{url}"', f"error: {url!r} is none"):
        hidden = hide_passwords(text)
        assert not leaks(hidden), hidden
        assert hide_passwords(hidden) == hidden
    words = ["cuprof", "sweep", f"store.url={url}", "measure=quick"]
    hidden = hide_in_command(shlex.join(words))
    assert not leaks(hidden)
    assert shlex.split(hidden)[3] == "measure=quick"
    assert hide_in_command(hidden) == hidden
    assert not leaks(hide_in_command(" ".join(words)))
    assert not leaks(str(hide_in_data({"store": {"url": url}, "list": [url, (url,)]})))
    assert not leaks(told_of(url))


@pytest.mark.parametrize("seed", range(20))
def test_random_passwords(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(50):
        secret = "hunter2" + "".join(chosen.choices("@:/?=%+ '\"\\#ä", k=chosen.randrange(6))) + "hunter2"
        url = URL.create("postgresql+psycopg", "me", secret, "host", 5432, "base", {"password": secret})
        for text in (url.render_as_string(hide_password=False), f"postgresql://me:{secret}@host/base"):
            assert not leaks(hide_passwords(text)), text
            assert not leaks(hide_in_command(shlex.join(["cuprof", f"store.url={text}"]))), text


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:////tmp/a@b",
        "sqlite:///my prüf/db.sqlite",
        "postgresql+psycopg://me@host:5432/base?host=/run/pg&sslmode=require&passfile=/home/me/.pgpass",
        "see https://docs.example.org:8080/a?b=c",
        "cuprof sweep problem.tokens=4 tune.pw=3 experiment=reduction",
        "password authentication failed for user me",
        "postgresql://me:***@host/db?password=*** cannot be reached: ask root@host",
        "",
    ],
)
def test_all_else_stays(text: str) -> None:
    assert hide_passwords(text) == text
    assert hide_in_command(text) == text


def test_several_urls_in_a_line() -> None:
    assert hide_passwords("a://u:p@h b://h/x:y sqlite:////tmp/a@b") == "a://u:***@h b://h/x:y sqlite:////tmp/a@b"
    assert hide_passwords("a://u:p@h/x,b://v:q@i/y") == "a://u:***@h/x,b://v:***@i/y"
    assert hide_passwords("a://u:p@h/x?password=q&port=5 b") == "a://u:***@h/x?password=***&port=5 b"


def test_a_long_text_takes_no_time() -> None:
    for text in ("a" * 10**5, "a://" * 500, "://u:" * 500 + "@", "?a=" * 10**4, "password" * 10**4, "'pwd" * 10**4):
        hide_passwords(text)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("@ " + "//a: " * 10**5, "@ " + "//a: " * 10**5),
        ("//a:b@ " * 10**5 + "//a: " * 10**5, "//a:***@ " + "//a: " * 10**5),
        ("b://a:b@ " * 10**5, "b://a:***@ " * 10**5),
        ("?password=" * 10**5, "?password=***"),
        ("&password=a b" * 10**5, "&password=***" * 10**5),
    ],
)
def test_a_longer_one_ends_within_the_time_of_a_test(text: str, hidden: str) -> None:
    assert hide_passwords(text) == hidden  # in steps by the square of the length it would take hours


def test_names_of_data_tell_of_passwords_too() -> None:
    assert hide_in_data({"password": "x", "n": {"sslPassword": "y", "secrets": 3}}) == {
        "password": "***",
        "n": {"sslPassword": "***", "secrets": 3},
    }
    assert re.fullmatch(r"host=h password=\*\*\* dbname=d", hide_passwords(r"host=h password='it\'s' dbname=d"))


def test_a_password_over_two_lines_of_yaml_is_found_and_other_text_stays_folded() -> None:
    folded = "store:\n  url: 'postgresql://me:one two\n    three@host/base'\nmeasure:\n  target: 0.1\n"
    assert hide_folded_passwords(folded) == "store:\n  url: 'postgresql://me:***@host/base'\nmeasure:\n  target: 0.1\n"
    plain = "text: a long\n  line\nlist:\n- one\n"
    assert hide_folded_passwords(plain) == plain


@pytest.mark.parametrize("text", ["//me:hunter2@host/base", "x//me:hunter2@host", "job 0: url='//me:hunter2@h/d'"])
def test_a_url_without_its_scheme_has_a_password_too(text: str) -> None:
    assert hide_passwords(text) == text.replace("hunter2", "***")


@pytest.mark.parametrize("name", ["pass word", "pass+word", "passw%20ord", " password"])
def test_a_space_in_an_option_does_not_make_it_public(name: str) -> None:
    assert hide_passwords(f"postgresql://h/d?a=b&{name}=hunter2&port=5") == f"postgresql://h/d?a=b&{name}=***&port=5"
