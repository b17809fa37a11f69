"""The command line of `judge`: what it is given, what it prints, its exit codes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.cli.judge import report_parts
from cuprof.cli.output import to_text
from cuprof.core.point import Point
from cuprof.core.project import Project
from cuprof.core.records import Measure
from cuprof.families.origin import Folder
from cuprof.judge.report import Candidate, Evidence, Report, Row, Ruling, as_data
from cuprof.statistics.verdict import Judgement, Verdict
from tests.conftest import Result

Cli = Callable[..., Result]
FAMILY = Path(__file__).parents[1] / "data" / "families" / "vector"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, project: Project) -> list[Any]:
    """Return what the judge was asked; it answers with one good candidate."""
    shutil.copytree(FAMILY, project.root / "kernels" / "vector", ignore=shutil.ignore_patterns("__pycache__"))
    Path("mine.py").touch()
    requests: list[Any] = []

    def judge(request: Any, *others: Any) -> Report:
        requests.append(SimpleNamespace(**vars(request), warden=others[-1]))
        row = Row(Point(n=16), Measure.COLD, 2e6, 1e6, Judgement(Verdict.FASTER, 0.5, 0.45, 0.55, False, 0.05))
        evidence = (Evidence("unusual", "line 3: imports gc, which finds others' objects", counts=False),)
        good = Candidate("mine.py", "mine", "cpu", "cpu_whole", "", Ruling.GOOD, (row,), evidence)
        bad = Candidate("bad.py", "", message="adds no variant")
        return Report("vector", (good, bad), "a process each", refusal="not allowed", noise={"CPU": "5%"})

    monkeypatch.setattr("cuprof.judge.court.judge", judge)
    monkeypatch.setattr("cuprof.judge.border.fork_server.ForkServer", nullcontext)  # whose processes nobody asks for
    return requests


def test_words_are_candidates_settings_and_options(cli: Cli, asked: list[Any], project: Project) -> None:
    done = cli(
        "judge", "vector", "problem.n=2**4,2**5", "mine.py", "measure=quick", "--memory-limit", "2G", "--rounds=5"
    )
    assert done.err == ""
    (request,) = asked
    assert request.origin == Folder(project.root / "kernels" / "vector")
    assert request.candidates == (Path("mine.py").resolve(),)
    assert (request.rounds, request.warden.memory_bytes, request.warden.mode) == (5, 2 << 30, "auto")
    assert request.config.problem == {"n": ("2**4", "2**5")}
    assert request.config.measure.modes == ("cold",)
    assert request.config.measure.target == 0.02
    assert request.config.family == "vector"


def test_a_setting_may_be_longer_than_a_file_name(cli: Cli, asked: list[Any]) -> None:
    values = tuple(map(str, range(1000, 1100)))
    assert cli("judge", "vector", "mine.py", f"problem.n={','.join(values)}").err == ""
    assert asked[0].config.problem == {"n": tuple(map(int, values))}


@pytest.mark.parametrize(
    ("words", "name", "metrics"),
    [
        (("mine.py", "--counters"), "study", 4),
        (("--counters", "mine.py"), "study", 4),  # the file is no metric set
        (("mine.py", "--counters", "measure=quick"), "study", 4),
        (("mine.py", "--counters=memory"), "memory", 13),
        (("mine.py", "--counters", "launch__grid_size,dram__bytes_read.sum"), "named", 2),
    ],
)
def test_counters_are_a_set_or_named(
    cli: Cli, asked: list[Any], words: tuple[str, ...], name: str, metrics: int
) -> None:
    assert cli("judge", "vector", *words, "ncu.cache_control=none").err == ""
    (request,) = asked
    assert request.candidates == (Path("mine.py").resolve(),)
    ncu = request.config.ncu
    assert (request.counters, ncu.name, len(ncu.metrics), ncu.cache_control) == (True, name, metrics, "none")


def test_a_family_may_be_a_folder(cli: Cli, asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cli("judge", str(FAMILY), "mine.py", "measure.modes=[hot]")
    assert asked[0].origin == Folder(FAMILY)
    assert asked[0].config.measure.modes == ("hot",)
    mine = Path("mine.py").absolute()
    monkeypatch.chdir(FAMILY)
    for here in (".", "family.py"):
        assert cli("judge", here, str(mine)).err == ""
        assert asked[-1].origin == Folder(FAMILY)


def test_it_is_said_in_words_and_as_json(cli: Cli, asked: list[Any]) -> None:
    done = cli("judge", "vector", "mine.py")
    assert done.exit_code == 2
    for text in ("GOOD  mine.py (mine): right", "NOT JUDGED  bad.py", "0.5000", "line 3: imports gc", "not allowed"):
        assert text in done.out
    data = json.loads(cli("judge", "vector", "mine.py", "--json").out)
    assert data["exit_code"] == 2
    assert [each["ruling"] for each in data["candidates"]] == ["good", "unusable"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("vector",), "required: CANDIDATE"),
        (("vector", "problem.n=4"), "name at least one candidate"),
        (("nothing", "mine.py"), "unknown family 'nothing'"),
        (("vector", "none.py"), "there is no file none.py"),
        (("vector", "loop.py"), "there is no file loop.py"),
        (("vector", "mine.py", "--keep="), "--keep needs a file's name"),
        (("vector", "mine.py", "--keep=cuprof.toml"), "--keep=cuprof.toml is the file of a project's settings"),
        (("vector", "mine.py", "--noise=-3%"), "the noise is -3%; give a share from 0 up to 1"),
        (("vector", "mine.py", "variants=cpu_whole"), "has no meaning for judge"),
        (("vector", "mine.py", "measure=quik"), "quik"),
        (("vector", "mine.py", "--counters=memry"), "memry"),
        (("vector", "mine.py", "ncu=memory"), "has no meaning for judge"),
        (("vector", "mine.py", "--memory-limit=much"), "is not a size"),
        (("vector", "mine.py", "--memory-limit=9999999T"), "no machine has 9999999T"),
        (("vector", "mine.py", "--time-limit=0"), "is no time limit"),
        (("vector", "mine.py", "--rounds=0"), "is no number of rounds"),
        (("vector", "mine.py", "--sandbox=maybe"), "'maybe' is not known: there are auto, off, required"),
    ],
)
def test_bad_input_is_one_line_and_2(cli: Cli, asked: list[Any], words: tuple[str, ...], message: str) -> None:
    Path("loop.py").symlink_to("loop.py")
    done = cli("judge", *words)
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not asked


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("wrong result", "WRONG  a.py (mine): its results are wrong"),
        ("impossible time", "NOT HONEST  a.py (mine): its times cannot be true"),
        ("does not compile", "FAILED  a.py (mine): it does not compile"),
        ("fails", "FAILED  a.py (mine): it fails"),
    ],
)
def test_what_is_wrong_is_not_called_dishonest(what: str, said: str) -> None:
    evidence = (Evidence(what, "x[0] = 1.0000001, expected 1"), Evidence("unusual", "line 3", counts=False))
    judged = Candidate("a.py", "mine", "cpu", "base", "x[0] = 1.0000001", Ruling.WRONG, evidence=evidence)
    first, *_ = to_text(report_parts(Report("vector", (judged,), "")), 100).splitlines()
    assert first == said
    assert as_data(Report("vector", (judged,), ""))["candidates"][0]["ruling"] == "wrong"


def test_a_file_that_claims_to_be_another_trial_is_not_honest() -> None:
    message = "'mine' claims to be what it is not: other problems, or another trial"
    judged = Candidate("a.py", "", message=message, ruling=Ruling.WRONG)
    assert to_text(report_parts(Report("vector", (judged,), "")), 100).startswith("NOT HONEST  a.py: it is not what it")
