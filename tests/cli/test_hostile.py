"""Names, files, logs and database values that would steer a terminal: every command shows them as escapes."""

from __future__ import annotations

import io
import json
import random
import sys
import unicodedata
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from cuprof.cli import doctor
from cuprof.cli import main as entry
from cuprof.cli.compare import print_comparison
from cuprof.cli.diagnosis import Diagnosis, Health
from cuprof.cli.ncu import counter_parts
from cuprof.cli.output import Line, preview_parts, print_json, print_message, show
from cuprof.cli.progress import LiveProgress, Progress
from cuprof.cli.stream import Output, guarded_output
from cuprof.comparison.compare import Options, compare
from cuprof.core.errors import UsageError
from cuprof.core.project import Project
from cuprof.engine.preview import Preview, PreviewRow
from cuprof.results.queries import Rows
from cuprof.results.read import make_columns
from tests.cli.test_comparison import side
from tests.cli.test_progress import GOOD, TRIAL, WRONG
from tests.conftest import Result

Cli = Callable[..., Result]
Captured = pytest.CaptureFixture[str]

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
SEQUENCES = (
    "\x1b[2J",
    "\x1b]0;t\x07",
    "\x1b]8;;http://x\x1b\\",
    "\x9b31m",
    "\r\x1b[A",
    "\x90q\x9c",
    "\b",
    "\n[9/9] ok",
)
ALPHABET = "abc µ核\u0301" + BIDI + "\ud800\udfff" + "".join(map(chr, (*range(32), 127, *range(128, 160))))


def hostile_strings(count: int, seed: int = 20_261_122) -> list[str]:
    dice = random.Random(seed)
    return [
        "".join(dice.choice((dice.choice(ALPHABET), dice.choice(SEQUENCES))) for _ in range(dice.randint(1, 12)))
        for _ in range(count)
    ]


HOSTILE = hostile_strings(1000)


def steering(text: str) -> set[str]:
    """Return what a terminal would obey; tabs and the ends of lines are harmless."""
    return {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cs") or letter in BIDI} - set("\n\t")


@pytest.fixture
def shown(capsys: Captured) -> Callable[[Callable[[], object]], str]:
    """Return what is seen of a call's output."""

    def run(call: Callable[[], object]) -> str:
        with guarded_output():
            call()
        captured = capsys.readouterr()
        return captured.out + captured.err

    return run


Shown = Callable[[Callable[[], object]], str]


def test_the_strings_would_steer_a_terminal() -> None:
    assert {"\x1b", "\x9b", "\x07", "\u202e", "\ud800"} <= steering("".join(HOSTILE))


def test_whatever_is_printed(shown: Shown) -> None:
    text = shown(lambda: [print(each) for each in HOSTILE])  # noqa: T201
    assert not steering(text)
    assert "\\x1b[2J" in text


def test_a_line_stays_a_line(shown: Shown) -> None:
    text = shown(lambda: show(*map(Line, HOSTILE)))
    assert not steering(text)
    assert text.count("\n") == len(HOSTILE)
    assert "\\n[9/9] ok" in text


def test_a_line_with_a_style_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with guarded_output():
        show(*(Line(each, "red") for each in HOSTILE))
    lines = terminal.getvalue().splitlines()
    assert len(lines) == len(HOSTILE)
    for line in lines:
        assert line.startswith("\x1b[31m")
        assert not steering(line.removeprefix("\x1b[31m").removesuffix("\x1b[0m"))


def test_errors(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in HOSTILE[:200]:
        assert not steering(cli(text).err)

    def fail(words: list[str]) -> int:
        raise UsageError("|".join(HOSTILE))

    monkeypatch.setattr(entry, "_dispatch", fail)
    result = cli("sweep")
    assert not steering(result.err)
    assert result.err.count("\n") == 1


def test_messages(shown: Shown) -> None:
    assert not steering(shown(lambda: [print_message(each) for each in HOSTILE]))


@pytest.mark.parametrize("form", ["table", "csv", "json"])
@pytest.mark.parametrize("width", ["40", "4000"])
def test_query(cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch, form: str, width: str) -> None:
    rows = Rows(("n", "value", HOSTILE[0]), [[(place, each, each) for place, each in enumerate(HOSTILE)]])
    monkeypatch.setattr("cuprof.results.queries.read", lambda *_, **options: nullcontext(rows))
    monkeypatch.setenv("COLUMNS", width)
    result = cli("query", "best", "--format", form)
    assert result.exit_code == 0
    assert not steering(result.out)
    if form == "json":
        assert [row["value"] for row in json.loads(result.out)] == HOSTILE


def test_list(cli: Cli, project: Project) -> None:
    folder = project.root / "conf" / "experiment"
    folder.mkdir(parents=True)
    for place, text in enumerate(HOSTILE[:100]):
        name = text.replace("/", "").replace("\0", "").encode(errors="replace").decode()
        (folder / f"{place}{name[:20]}.yaml").write_text(f"# {name}.\nfamily: x\n")
    for argv in (["list", "experiments"], ["list", "experiments", "--json"]):
        result = cli(*argv)
        assert result.exit_code == 0
        assert not steering(result.out + result.err)


def test_doctor(cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Diagnosis(each, Health.WARNING, each, each) for each in HOSTILE]
    monkeypatch.setattr(doctor, "examine", lambda project, store: found)
    for argv in (["doctor"], ["doctor", "--json"]):
        assert not steering(cli(*argv).out)


@pytest.mark.parametrize("output", ["table", "markdown", "json"])
def test_compare(shown: Shown, output: str) -> None:
    pair = [
        side(each, {n: 50.0 + n for n in range(3)}, seed, notes=tuple(HOSTILE)) for seed, each in enumerate(HOSTILE[:2])
    ]
    for each in pair:
        each.trials[["family", "variant"]] = make_columns(
            {
                name: np.full(len(each.trials), HOSTILE[place], dtype=object)
                for place, name in ((2, "family"), (3, "variant"))
            }
        )
    found = compare(*pair, Options(noise=0.01))
    assert len(found.rows)
    assert not steering(shown(lambda: print_comparison(found, output, everything=True)))


def test_a_sweeps_preview_and_an_ncu_collections_counters(shown: Shown) -> None:
    rows = tuple(PreviewRow(each, "0" * 32, "excluded", each) for each in HOSTILE)
    assert not steering(shown(lambda: show(*preview_parts(Preview(rows, tuple(HOSTILE))))))
    counted = [(each, {"a": each, "b": 1.0}, HOSTILE[0] if place % 2 else "") for place, each in enumerate(HOSTILE)]
    assert not steering(shown(lambda: show(*counter_parts(counted, ["a", "b"], {"a": HOSTILE[0]}))))
    assert not steering(shown(lambda: print_json({each: each for each in HOSTILE})))


def test_progress() -> None:
    plain, live = io.StringIO(), io.StringIO()
    console = Console(file=live, force_terminal=True, width=200, color_system=None, legacy_windows=False)
    for observer in (Progress(plain), LiveProgress(console)):
        with observer:
            observer.started(len(HOSTILE), ())
            for text in HOSTILE[:300]:
                trial = replace(TRIAL, label=text)
                observer.trial_started(trial, "time")
                observer.trial_finished(trial, replace(WRONG, message=text))
                observer.trial_finished(trial, GOOD)
                observer.note(text)
            observer.finished(1)
    assert not steering(plain.getvalue())
    assert not steering(live.getvalue()) - {"\x1b", "\r"}  # the live line moves the cursor
    assert not any(sequence in live.getvalue() for sequence in ("\x1b[2J", "\x1b]", "\x1b\\", "\r\x1b[A"))


def test_a_terminal_of_few_letters_shows_escapes() -> None:
    raw = io.BytesIO()
    few = io.TextIOWrapper(raw, encoding="ascii")
    Output(few).write("12 µs")
    few.flush()
    assert raw.getvalue() == b"12 \\xb5s"
