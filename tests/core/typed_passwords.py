"""URLs with passwords in every form that people type them, and what is left of one in a text."""

from __future__ import annotations

from urllib.parse import quote, quote_plus

WORD = "hunter2"
FORMS = (
    "postgresql+psycopg://me:{}@127.0.0.1:1/base",
    "postgresql://127.0.0.1:1/base?user=me&password={}",
    "postgresql://me@127.0.0.1:1/base?password={}&connect_timeout=3",
    "postgresql://127.0.0.1:1/base?user=me&sslpassword={}&passfile=/none",
    "POSTGRESQL://ME:{}@127.0.0.1:1/BASE",
    "postgresql://127.0.0.1:1/base?PASSWORD={}",
    "postgres://me:{}@127.0.0.1:port/base",
    "postgresql://me:{}@127.0.0.1:1/base?p%61ssword={}",
    "host=127.0.0.1 port=1 user=me password='{}' dbname=base",
    "mysql://me:{}@127.0.0.1:1/base",
    "postgresql://:{}@/base?host=/none",
    "sqlite:///none.sqlite?password={}",
    "postgresql:///me:{}@127.0.0.1:1/base",
)
SECRETS = (
    WORD,
    quote_plus(f"{WORD}@ü'"),
    quote(f"{WORD} {WORD}", safe=""),
    f"{WORD}@{WORD}",
    f"{WORD}:{WORD}@{WORD}/{WORD}",
    f"my {WORD} is {WORD}",
    f'{WORD}"{WORD}',
    f"{WORD.upper()}#{WORD}",
    f"{WORD}://{WORD}",
)


def type_url(form: str, secret: str) -> str:
    """Return the form with the password in it."""
    return form.replace("{}", secret)


def leaks(text: str) -> bool:
    """Return whether any part of a password stands in the text."""
    return WORD in text.lower()
