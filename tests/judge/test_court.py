"""What becomes of candidates: honest ones, slow ones, wrong ones, and those that do what no kernel ought to do."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from cuprof.backends.buffers import available_bytes
from cuprof.config.model import NcuConfig, SweepConfig
from cuprof.core.errors import UsageError
from cuprof.engine.observer import Observer
from cuprof.families.origin import load_family
from cuprof.interop.origins import copy_alone
from cuprof.judge import contenders
from cuprof.judge.border.signals import Ask
from cuprof.judge.contenders import check_file
from cuprof.judge.court import Request, judge
from cuprof.judge.examiner import NoEndError, call_within
from cuprof.judge.legs import Course
from cuprof.judge.report import Candidate, Report, Ruling, as_data
from cuprof.judge.warden import Warden
from tests.interop.samples import WORKLOADS, WRITING, solution, write_beside
from tests.judge.conftest import FEW, QUICK, ROOT, Court, N, even_host, take_as_long, take_each
from tests.living import LONG_S, command_of

HONEST = """
@family.cpu("honest")
def honest(problem, tune, inputs, outputs):
    "One call for the whole array."
    return lambda: right(inputs, outputs)
"""
SLOW = """
@family.cpu("slow")
def slow(problem, tune, inputs, outputs):
    return lambda: [right(inputs, outputs) for _ in range(400)]
"""
BAD = {
    "wrong.py": """
        @family.cpu("wrong")
        def wrong(problem, tune, inputs, outputs):
            return lambda: np.multiply(inputs["x"], 3, out=outputs["y"])
        """,
    "crashes.py": """
        import ctypes
        @family.cpu("crashes")
        def crashes(problem, tune, inputs, outputs):
            return lambda: ctypes.string_at(0)
        """,
    "hangs.py": """
        import time
        @family.cpu("hangs")
        def hangs(problem, tune, inputs, outputs):
            return lambda: time.sleep(600)
        """,
    "greedy.py": """
        @family.cpu("greedy")
        def greedy(problem, tune, inputs, outputs):
            return lambda: np.ones(1 << 28)
        """,
    "reads_for_ever.py": "while True: pass\n",
    "ends_while_read.py": "import os\nos._exit(7)\n",
    "signals.py": """
        import os
        @family.cpu("signals")
        def signals(problem, tune, inputs, outputs):
            return lambda: os.kill(os.getpid(), 35)  # of real time, which has no name
        """,
    "signals_while_read.py": "import os\nos.kill(os.getpid(), 35)\n",
}
MESSAGES = {
    "wrong.py": "expected",
    "crashes.py": "SIGSEGV while checking",
    "hangs.py": "stopped after 2 s while checking",
    "greedy.py": "MemoryError",
    "reads_for_ever.py": "stopped after 2 s",
    "ends_while_read.py": "exit code 7",
    "signals.py": "signal 35 while checking",
    "signals_while_read.py": "signal 35",
}


REACHES = """
from . import FACTOR, family as own
own.variants["cpu_whole"] = None
family.reference = own.reference = lambda problem, inputs: {"y": inputs["x"]}
@own.cpu("cpu_whole_2")
def two(problem, tune, inputs, outputs):
    return lambda: np.multiply(inputs["x"], FACTOR, out=outputs["y"])
@family.cpu("cpu_whole")
def three(problem, tune, inputs, outputs):
    return lambda: np.copyto(outputs["y"], inputs["x"])
"""
CLAIMS = """
from dataclasses import replace
from cuprof.core.point import Point
import cuprof.judge.border.inside as inner
real = inner.plan
def plan(family, selection, devices):
    made = real(family, selection, devices)
    (t,) = made.trials
    return replace(made, trials=(%s,))
inner.plan = plan
@family.cpu("claims")
def claims(problem, tune, inputs, outputs):
    return lambda: right(inputs, outputs)
"""
CLAIMED = (
    'replace(t, identity="x" * 32)',
    't, replace(t, identity="a" * 32, backend="opencl")',
    't, replace(t, identity="a" * 32, backend="")',
    "t, t",
    '*(replace(t, identity="%032x" % each, tunables=Point(each=each)) for each in range(900))',
    "replace(t, order=2**70)",
    "replace(t, threads=-2**70)",
    'replace(t, tunables=Point(text="x" * 900_000))',
    'replace(t, tunables=Point(x=float("nan")))',
    'replace(t, tunables=Point(x=float("-inf")))',
    'replace(t, kind="kernel\\0")',
)
SAME_IDENTITY = """
from dataclasses import replace
import cuprof.judge.border.inside as inner
real = inner.plan
def plan(family, selection, devices):
    made = real(family, selection, devices)
    return replace(made, trials=tuple(replace(trial, identity="a" * 32) for trial in made.trials))
inner.plan = plan
"""
ALIKE = {f"{name}.py": SAME_IDENTITY + HONEST.replace("honest", name) for name in ("first", "second")}
EQUAL = CLAIMS.replace("%s", "replace(t, problem=Point(dtype='float32', n=float(t.problem.n)))")
INVENTS = CLAIMS.replace(
    "%s", 'replace(t, source_text="x", source_hash="zz\\0" * 1000, description="fast", origin="javascript:alert(1)")'
)
SEES = """
import os
@family.cpu("sees")
def sees(problem, tune, inputs, outputs):
    raise ValueError(f"found: {[os.path.getsize(KEPT + ending) for ending in ('', '-wal', '-shm')]}")
"""


@pytest.fixture(scope="module")
def judged(make_court: Any) -> Report:
    """Return what came of all these, of an honest one between them, and of one that is gone before it is read."""
    court = make_court()
    kept = court.folder / "judged.results"
    claims = {f"claims_{number}.py": CLAIMS.replace("%s", claimed) for number, claimed in enumerate(CLAIMED)}
    texts = {
        **BAD,
        "reaches.py": REACHES,
        **claims,
        "honest.py": HONEST,
        **ALIKE,
        "equal.py": EQUAL,
        "invents.py": INVENTS.replace('"claims"', '"invents"'),
        "sees.py": SEES.replace("KEPT", repr(str(kept))),
        "gone.py": HONEST,
    }
    files = [court.write(name, text) for name, text in texts.items()]
    open_regular = contenders.open_regular

    def open_what_is_there(file: Path, most: int) -> Any:
        if file.name == "gone.py":
            file.unlink()
        return open_regular(file, most)

    def is_limited(file: str, ask: bytes) -> bool:
        return file == "reads_for_ever.py" or (file == "hangs.py" and ask == Ask.EXECUTE)

    timed = dict.fromkeys(("", *BAD))
    with pytest.MonkeyPatch.context() as patch, even_host(lambda file: timed.get(file, take_as_long), is_limited):
        patch.setattr(contenders, "open_regular", open_what_is_there)
        report = court.judge(*files, time_limit_s=2.0, memory_bytes=3 << 29, measure=FEW, database=kept)
    assert list(dict.fromkeys(Path(each.file).name for each in report.candidates)) == list(texts)
    return report


def of_file(report: Report, name: str) -> list[Candidate]:
    return [each for each in report.candidates if Path(each.file).name == name]


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_found_and_said(judged: Report, name: str) -> None:
    (each,) = of_file(judged, name)
    assert each.ruling is Ruling.WRONG
    assert MESSAGES[name] in each.message
    assert judged.exit_code == 3


def test_others_do_not_disturb_an_honest_one(judged: Report) -> None:
    (honest,) = of_file(judged, "honest.py")
    assert (honest.ruling in (Ruling.GOOD, Ruling.NOT_FASTER), honest.baseline) == (True, "cpu_whole"), honest
    assert honest.rows


def test_a_faster_one_is_good_and_a_slower_one_is_not(court: Any) -> None:
    """Also at a problem that the baseline leaves out, which counts against nobody."""
    files = court.write("honest.py", HONEST), court.write("slow.py", SLOW)
    many = replace(QUICK, min_samples=30, max_samples=30, max_seconds=1e3, patience_seconds=1e3)
    execution_ns = {"": 1_000_000, "honest.py": 100_000, "slow.py": 40_000_000}
    with even_host(lambda file: take_each(execution_ns[file])):
        report = court.judge(*files, n=(8, N), baseline="cpu_chunks", tune={"chunk": (256,)}, measure=many)
    honest, slow = report.candidates
    assert (honest.ruling, honest.baseline, honest.variant) == (Ruling.GOOD, "cpu_chunks", "honest"), honest
    assert replace(report, candidates=(honest,)).exit_code == 0
    (row,) = honest.rows
    assert (row.problem.n, row.judgement.verdict) == (N, "faster")
    assert row.judgement.low <= row.judgement.ratio <= row.judgement.high < 1
    assert row.judgement.ratio == pytest.approx(0.1)
    assert slow.ruling is Ruling.NOT_FASTER, slow
    assert slow.rows[0].judgement.verdict == "slower"
    assert report.exit_code == 1
    assert honest.message == slow.message == ""
    assert (
        "nothing is judged at n=8, dtype=float32, where baseline cpu_chunks is not defined: chunk 256 is larger than n"
    ) in report.notes


@pytest.mark.usefixtures("_even_host")
def test_nothing_of_the_project_is_changed_and_what_was_measured_can_be_kept(court: Any) -> None:
    before = sorted(court.project.root.rglob("*"))
    kept = court.folder / "kept.sqlite"
    court.write("factors.txt", "2")
    file = court.write(
        "honest.py",
        f"""
        @family.cpu("honest")
        def honest(problem, tune, inputs, outputs):
            with open({str(court.folder / "factors.txt")!r}) as factors:
                factor = int(factors.read())
            return lambda: np.multiply(inputs["x"], factor, out=outputs["y"])
        """,
    )
    report = court.judge(file, database=kept, rounds=2, noise=None, measure=FEW)
    assert report.candidates[0].ruling in (Ruling.GOOD, Ruling.NOT_FASTER), report.candidates[0].message
    assert sorted(court.project.root.rglob("*")) == before
    assert report.database == str(kept)
    with sqlite3.connect(kept) as connection:
        assert connection.execute("SELECT count(*) FROM sweep").fetchone() == (5,)
    connection.close()
    require_whole_data(json.loads(json.dumps(as_data(report))))


def test_a_note_is_forwarded_once_whatever_its_numbers() -> None:
    observer = Mock(spec=Observer)
    course = Course(Mock(), Mock(), Mock(), Mock(), observer)
    for text in ("the host is busy (load 3.1 on 2 cores): CPU times will scatter", "another"):
        course.note(text)
        course.note(text.replace("3.1", "4.2"))
    assert [call.args[0][:20] for call in observer.note.call_args_list] == ["the host is busy (lo", "another"]


def require_whole_data(data: dict[str, Any]) -> None:
    """Check what the report of one honest candidate has, as data."""
    assert set(data) == {
        "schema", "family", "exit_code", "candidates", "rule", "rounds", "noise", "sandbox", "notes", "database",
        "counters",
    }  # fmt: skip
    (each,) = data["candidates"]
    assert set(each) == {
        "file", "variant", "backend", "baseline", "ruling", "exit_code", "message", "rows", "evidence", "counters",
    }  # fmt: skip
    assert set(each["rows"][0]) == {"problem", "measure", "base_ns", "new_ns", "ratio", "low", "high", "verdict"}
    assert each["rows"][0]["problem"] == {"n": N, "dtype": "float32"}
    assert "estimated from 1 trial" in next(iter(data["noise"].values()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "adds no variant"),
        ("1 / 0\n", "ZeroDivisionError"),
        (
            'for n in range(65): family.cpu(f"v{n}")(lambda *_: print)\n',
            "it has 65 variants; at most 64 of a file",
        ),
        ("import no_such_module\n", "ModuleNotFoundError"),
        ("import beside\n", "Python files beside a candidate are not read: put what it needs of beside.py into it"),
        ("from .beside import x\n", "Python files beside a candidate are not read"),
        ('@family.cpu("ü")\ndef x(problem, tune, inputs, outputs): ...\n', "odd.py: variant ü: a variant's name is"),
        ('@family.cpu("x", expected="wrong")\ndef x(problem, tune, inputs, outputs): ...\n', "of its own"),
        ('@family.cpu("x", tolerance=lambda *_: None)\ndef x(problem, tune, inputs, outputs): ...\n', "of its own"),
        ('@family.cpu("x", requires="no_such")\ndef x(problem, tune, inputs, outputs): ...\n', "no_such is not inst"),
    ],
)
def test_what_cannot_be_judged(court: Any, text: str, message: str) -> None:
    court.write("beside.py", "x = 1\n")
    report = court.judge(court.write("odd.py", text))
    assert report.exit_code == 2
    assert message in report.candidates[0].message
    assert "cuprof-run" not in report.candidates[0].message


def test_a_file_that_is_no_candidate_is_refused(court: Any) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        court.judge(court.folder / "none.py")
    (court.folder / "link.py").symlink_to(court.write("text", ""))
    with pytest.raises(UsageError, match="is not a candidate"):
        check_file(court.folder / "link.py")
    for name in ("notes.txt", "mine.c"):
        with pytest.raises(UsageError, match=r"is not a candidate; .* \(C: @family\.kernel\)"):
            court.judge(court.write(name, ""))
    with pytest.raises(UsageError, match="it has no cuda variant"):
        court.judge(court.write("kernel.cu", ""))


def test_a_name_that_is_too_long_is_no_lie(court: Any) -> None:
    (each,) = court.judge(court.write("long.py", HONEST.replace('"honest"', '"v" * 101'))).candidates
    assert (each.ruling, "has a name of 101 letters; at most 100" in each.message) == (Ruling.UNUSABLE, True), each


def test_a_file_that_is_gone_again_costs_itself_alone(judged: Report) -> None:
    (gone,) = of_file(judged, "gone.py")
    assert (gone.ruling, "cannot be read" in gone.message) == (Ruling.UNUSABLE, True), gone


def test_a_file_that_cannot_be_opened_costs_itself_alone(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    files, ask_system = [court.write(name, "nothing = family") for name in ("gone.py", "other.py")], Warden.ask_system

    def ask_later(self: Warden) -> Warden:
        files[0].unlink()
        return ask_system(self)

    monkeypatch.setattr(Warden, "ask_system", ask_later)
    gone, other = court.judge(*files).candidates
    assert "cannot be read" in gone.message
    assert "adds no variant" in other.message


def test_a_family_is_reached_and_stays_what_it_is(judged: Report) -> None:
    found = {each.variant: each.ruling for each in of_file(judged, "reaches.py")}
    assert found.keys() == {"cpu_whole_2", "cpu_whole_candidate"}
    assert found["cpu_whole_2"] is not Ruling.WRONG
    assert found["cpu_whole_candidate"] is Ruling.WRONG


def test_what_would_judge_nothing_is_refused(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    file = court.write("mine.py", "@family.cpu('mine')\ndef mine(problem, tune, x, y): ...\n")
    with pytest.raises(UsageError, match="unknown variant 'nosuch'"):
        court.judge(file, like="nosuch")
    monkeypatch.setattr("cuprof.judge.court.MOST_TRIALS", 0)
    with pytest.raises(UsageError, match="the baseline has 1 trials; judge at most 0, at fewer problems"):
        court.judge(file)


def test_total_time_of_host_code_is_not_judged(court: Court) -> None:
    file = court.write("mine.py", "@family.cpu('mine')\ndef mine(problem, tune, inputs, outputs): ...\n")
    (found,) = court.judge(file, measure=replace(QUICK, modes=("total",))).candidates
    assert (found.ruling, found.message) == (
        Ruling.UNUSABLE,
        "its total time is not judged; ask for measure.modes=[cold]",
    )


@pytest.mark.usefixtures("_even_host")
def test_every_workload_of_a_definition_is_judged(court: Court, tmp_path: Path) -> None:
    """One has no rows, and so no words in which a late result would show."""
    empty = {**WORKLOADS[0], "axes": {"rows": 0}, "uuid": "empty"}
    folder = write_beside(tmp_path / "definition", workloads=[empty, WORKLOADS[1]])
    text = WRITING + "    if x.shape[0] > 4:\n        y[...] = 0\n"
    file = tmp_path / "early.json"
    file.write_text(json.dumps(solution("early", {"main.py": text})))
    config = SweepConfig(experiment="", family="rmsnorm_h64", measure=FEW)
    origin = copy_alone(str(folder), tmp_path / "copy")
    request = Request(config, origin, (file,), rounds=1, noise=0.05, as_root=True)
    warden = Warden(court.project.root, [file]).ask_system()
    (found,) = judge(request, court.project, Observer(), court.server, warden).candidates
    assert found.ruling is Ruling.WRONG, found
    assert "rows=32" in found.message


@pytest.mark.usefixtures("namespaces")
@pytest.mark.own_workers
def test_what_a_sandbox_keeps_in(court: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    database = court.project.root / "db.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    monkeypatch.setenv("SECRET_TOKEN", "not to be seen")
    leftover = f"judged {time.time_ns()}"
    file = court.write(
        "curious.py",
        f"""
        import os, socket, sqlite3, subprocess, sys
        def allowed(action):
            try:
                action()
            except (OSError, sqlite3.Error):
                return False
            return True
        found = {{
            "family": allowed(lambda: open({str(court.family / "family.py")!r}, "a")),
            "beside": allowed(lambda: open({str(court.folder / "left")!r}, "w")),
            "package": allowed(lambda: open(np.__file__, "a")),
            "database": allowed(lambda: sqlite3.connect({str(database)!r}).execute("INSERT INTO t VALUES (1)")),
            "network": allowed(lambda: socket.create_connection(("127.0.0.1", 9), 10)),
            "parent": allowed(lambda: os.kill({__import__("os").getpid()}, 0)),
            "secret": "SECRET_TOKEN" in os.environ,
        }}
        assert allowed(lambda: open("/tmp/own", "w"))
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", {leftover!r}], start_new_session=True)
        @family.cpu("curious")
        def curious(problem, tune, inputs, outputs):
            raise ValueError(f"allowed: {{[name for name, is_allowed in found.items() if is_allowed]}}")
        """,
    )
    report = court.judge(file, sandbox="required", measure=FEW)
    assert "allowed: []" in report.candidates[0].message
    assert not any(leftover in command_of(each) for each in psutil.process_iter())


@pytest.mark.usefixtures("namespaces")
def test_a_database_that_results_are_kept_in_cannot_be_locked(judged: Report) -> None:
    (sees,) = of_file(judged, "sees.py")
    assert "found: [0, 0, 0]" in sees.message


@pytest.mark.slow
def test_without_a_sandbox_it_is_said(court: Any, fake_ncu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.judge.warden.find_refusal", lambda: "not today")
    file = court.write("honest.py", HONEST)
    with pytest.raises(UsageError, match=r"refuses a sandbox \(not today\)"):
        court.judge(file, sandbox="required")
    report = court.judge(file)
    assert report.refusal == "not today"
    assert report.candidates[0].rows
    ncu = NcuConfig(path=str(fake_ncu.path), metrics=("launch__grid_size",))
    report = court.judge(file, sandbox="off", ncu=ncu, counters=True)
    assert report.candidates[0].rows
    assert "cpu variants have no hardware counters that Nsight Compute reads" in report.notes[-1]
    assert report.exit_code < Ruling.UNUSABLE


@pytest.mark.parametrize("number", range(len(CLAIMED)))
def test_what_files_claim_of_themselves_is_not_believed(judged: Report, number: int) -> None:
    (each,) = of_file(judged, f"claims_{number}.py")
    assert each.ruling is Ruling.WRONG
    assert "claims to be what it is not" in each.message
    assert len(each.message) < 300


def test_the_text_of_a_kept_function_is_that_of_its_file(judged: Report) -> None:
    (invents,) = of_file(judged, "invents.py")
    assert invents.rows, invents
    text = Path(invents.file).read_text()
    with closing(sqlite3.connect(judged.database)) as kept:
        facts = kept.execute("select source_text, source_hash, description, origin from variant where name = 'invents'")
        (found,) = facts.fetchall()
    assert found == (text, hashlib.sha256(text.encode()).hexdigest(), "", "")


def test_a_problem_is_called_as_it_was_asked_for(judged: Report) -> None:
    (found,) = of_file(judged, "equal.py")
    assert [row.problem.label for row in found.rows] == [f"n={N}, dtype=float32"], found


@pytest.mark.usefixtures("_even_host")
def test_no_trial_is_timed_in_the_place_of_another_whose_identity_it_claims(court: Court) -> None:
    small_alone = """
@family.cpu("small_alone")
def small_alone(problem, tune, inputs, outputs):
    return lambda: problem.n > 64 or right(inputs, outputs)
"""
    (found,) = court.judge(court.write("forged.py", SAME_IDENTITY + small_alone), n=(64, N), measure=FEW).candidates
    assert (found.ruling, f"n={N}" in found.message) == (Ruling.WRONG, True), found


def test_a_claimed_identity_takes_nothing_from_another_file(judged: Report, make_trial: Any) -> None:
    (first,), (second,) = (of_file(judged, name)[0].rows for name in ALIKE)
    assert first.trials[0] == second.trials[0]
    assert first.trials[1] != second.trials[1]
    one, again, other = (contenders._identify(make_trial("a" * 32), text) for text in ("1", "1", "2"))
    assert one == again != other  # of the same text it is the same


@pytest.mark.usefixtures("_even_host")
def test_files_that_change_while_others_are_read_end_nothing(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe would never end; and what runs is what was read, whatever the file says later."""
    pipe, other, kept = (court.write(name, HONEST) for name in ("pipe.py", "other.py", "kept.py"))
    admit, copy = contenders.Entrance.admit, contenders.copy_family

    def admit_later(self: contenders.Entrance, file: Path, number: int) -> Any:
        if file == pipe:
            pipe.unlink()
            os.mkfifo(pipe)
        return admit(self, file, number)

    def copy_later(folder: Path, into: Path, file: Path, *others: Any) -> Any:
        if file.name == kept.name:
            kept.write_text("raise ValueError")
        return copy(folder, into, file, *others)

    monkeypatch.setattr(contenders.Entrance, "admit", admit_later)
    monkeypatch.setattr(contenders, "copy_family", copy_later)
    first, *others = court.judge(pipe, kept, other, measure=FEW).candidates
    assert (first.ruling, first.message.endswith("it is not a file")) == (Ruling.UNUSABLE, True), first
    assert [len(each.rows) for each in others] == [1, 1], others


SPY = """
from pathlib import Path

@family.cpu("spy")
def spy(problem, tune, inputs, outputs):
    seen = [path for path in Path(__file__).parent.rglob("*.py") if "se" + "cret" in path.read_text()]
    raise ValueError(f"sees {seen}")
"""


def test_nobody_is_good_where_results_are_the_same_for_all_inputs(court: Court) -> None:
    """A candidate that computes them once, before the clock runs, is right on inputs that it has never seen."""
    file = court.family / "family.py"
    file.write_text(file.read_text().replace('"x": rng.', '"x": np.random.default_rng(7).'))
    some = replace(QUICK, min_samples=12, max_samples=12, max_seconds=1e3, patience_seconds=1e3)
    with even_host(lambda file: take_each(1_000 if file else 20_000)):
        (found,) = court.judge(court.write("honest.py", HONEST), measure=some).candidates
    assert (found.ruling, len(found.rows)) == (Ruling.UNUSABLE, 1), found
    assert "results for some inputs are right for all others" in found.message
    (seen,) = (one for one in found.evidence if one.what == "the same in every draw")
    assert (seen.detail[:2], seen.counts) == ("x;", False)


VERIFY = """
def verify(problem, inputs, outputs, expected):
    while outputs["y"].any() and not np.array_equal(outputs["y"], FACTOR * inputs["x"]):
        pass
    return bool(outputs["y"].any())


family = Family(verify=verify, """


@pytest.mark.usefixtures("_even_host")
def test_a_verify_that_never_ends_on_one_candidates_results_ends_its_verdict_alone(court: Court) -> None:
    file = court.family / "family.py"
    text = file.read_text().replace('return {"y": FACTOR * inputs["x"].astype(np.float64)}', "return {}")
    file.write_text(text.replace("family = Family(", VERIFY))
    wrong_text = HONEST.replace("return lambda: right(inputs, outputs)", "return lambda: outputs['y'].fill(0.5)")
    files = court.write("wrong.py", wrong_text), court.write("honest.py", HONEST)
    wrong, honest = court.judge(*files, measure=FEW, time_limit_s=3).candidates
    assert (wrong.ruling, len(honest.rows)) == (Ruling.UNUSABLE, 1), (wrong, honest)
    assert "no end within the time limit on these results (family.py, line " in wrong.message


def test_a_call_has_no_more_time_and_memory_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        while True:
            pass

    own = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(NoEndError):
        call_within(0.05, never)
    with pytest.raises(MemoryError):
        call_within(LONG_S, bytearray, available_bytes())
    assert call_within(LONG_S, max, 1, 2) == 2
    with monkeypatch.context() as patch:
        patch.setattr("threading.Timer.start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError):
            call_within(LONG_S, max, 1, 2)
    assert resource.getrlimit(resource.RLIMIT_AS) == own


@pytest.mark.parametrize("folder", ["", "below"])
def test_a_candidate_in_the_familys_folder_is_not_copied_with_it(court: Court, folder: str) -> None:
    beside = court.family / folder / "other.py"
    beside.parent.mkdir(exist_ok=True)
    beside.write_text("# a secret")
    spy = court.judge(beside, court.write("spy.py", SPY), measure=FEW).candidates[-1]
    assert "ValueError: sees []" in spy.message, spy


def test_what_the_family_is_made_of_is_copied_also_where_it_is_judged(court: Court) -> None:
    folder, mine = ROOT / "kernels" / "reduction", court.folder / "mine.py"
    family, own = load_family(folder), [folder / name for name in ("family.py", "passes.py", "vector4.cu")]
    entrance = Mock(family=family, files=[*own, mine, court.folder / "other.py"])
    assert contenders.Entrance._list_others(entrance, mine) == {str(court.folder / "other.py")}


@pytest.mark.usefixtures("_even_host")
def test_a_candidate_that_leaves_out_a_problem_is_not_good(court: Court) -> None:
    constraint = 'constraint=lambda problem, tune: "too large" if problem.n > 16 else None'
    file = court.write("small.py", HONEST.replace('"honest")', f'"honest", {constraint})'))
    tune = {"chunk": (16, 64)}
    (found,) = court.judge(file, n=(16, 64), baseline="cpu_chunks", tune=tune, measure=FEW).candidates
    assert found.ruling is Ruling.NOT_FASTER
    assert found.message == "it has no time at n=64, dtype=float32, where the baseline has one: too large"
    assert [row.problem.n for row in found.rows] == [16]


@pytest.mark.usefixtures("_even_host")
def test_a_variant_without_a_trial_is_said_beside_the_others(court: Court) -> None:
    absent = HONEST.replace('"honest"', '"absent", constraint=lambda problem, tune: "none fits"')
    file = court.write("two.py", HONEST + absent)
    found = {each.variant: each for each in court.judge(file, measure=FEW).candidates}
    assert found.keys() == {"honest", "absent"}
    assert found["honest"].ruling is not Ruling.UNUSABLE
    assert (found["absent"].ruling, found["absent"].message) == (
        Ruling.UNUSABLE, "none of its trials remain: none fits",
    )  # fmt: skip


def test_a_file_that_uses_a_gpu_as_it_is_read_is_told_where_to(court: Court) -> None:
    file = court.write("early.py", "raise RuntimeError('No CUDA GPUs are available')\n")
    (found,) = court.judge(file).candidates
    assert found.ruling is Ruling.UNUSABLE
    assert found.message.endswith("; a file is read where there is no GPU: use it in the variant's function")
