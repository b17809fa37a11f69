"""`cuprof source` on counters that Nsight Compute recorded on an H200, of trials and of imported reports."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.cli.main import main
from cuprof.cli.source import draw_bar
from cuprof.core.project import Project
from cuprof.core.records import LaunchRecord, Profile, SourceCounters, State
from cuprof.ncu.files import NEWEST_VERSION, find_conditions
from cuprof.ncu.report_file import read_report
from cuprof.store.store import Store
from tests.comparison.made import Made, fill
from tests.conftest import Result, give_database

Cli = Callable[..., Result]
REPORT = Path(__file__).parents[1] / "data" / "ncu" / "recorded" / "source_counters.ncu-rep"
_FIRST = "SELECT identity FROM trial WHERE label = 'invented/first · n=2^20 · block=64'"
TEXT = "\n".join(f"\tstatement_{number}();" for number in range(1, 40))


@pytest.fixture(scope="module")
def launch() -> LaunchRecord:
    return next(iter(read_report(REPORT).values()))[0]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with three trials."""
    file = tmp_path_factory.mktemp("filled") / "cuprof.sqlite"
    with Store.open(f"sqlite:///{file}") as store:
        fill(store, [Made("first", source=TEXT), Made("first", tune={"block": 128}, source=TEXT), Made("second")])
    return file


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with the launches of the report."""
    file = tmp_path_factory.mktemp("imported") / "cuprof.sqlite"
    assert main(["ncu-import", str(REPORT), "--store", f"sqlite:///{file}"]) == 0
    return file


@pytest.fixture
def record(project: Project, filled: Path) -> Callable[..., None]:
    """Return a function that stores launches as the newest profile of the first trial, which has a block of 64."""
    give_database(project, filled)

    def add(*launches: LaunchRecord) -> None:
        with Store.open(project.database_url) as store, store.snapshot() as connection:
            identity = str(connection.exec_driver_sql(_FIRST).scalar())
        with Store.open(project.database_url) as store:
            store.record_profile(1, Profile(identity, "", State.OK, find_conditions(REPORT), launches=launches))

    return add


def changed(launch: LaunchRecord, **changes: object) -> LaunchRecord:
    """Return a launch with other counters by instruction."""
    assert isinstance(launch.source, SourceCounters)
    return replace(launch, source=replace(launch.source, **changes))  # type: ignore[arg-type]


def test_lines_of_a_trial_stand_beside_their_costs(cli: Cli, record: Callable[..., None], launch: LaunchRecord) -> None:
    record(launch)
    shown = cli("source", "invented/first")
    assert (shown.exit_code, shown.err) == (0, "")
    assert "invented/first · n=2^20 · block=64 · kernel interleaved_divergent, launch 1, cold" in shown.out
    data = json.loads(cli("source", "first:block=64", "problem.n=2**20", "--json").out)
    for line in data["lines"]:
        (row,) = [text for text in shown.out.splitlines() if text.endswith(f" statement_{line['line']}();")]
        assert f"{line['executed']:,}" in row
        assert (f"{line['share']:.1%}" in row) == bool(line["stalled"])
        assert line["reason"] in row
    assert sum(line["share"] for line in data["lines"]) == pytest.approx(1)
    assert sum(each["stalled"] for each in data["instructions"]) == data["stalled"] > 0


def test_instructions_name_what_they_wait_for(cli: Cli, record: Callable[..., None], launch: LaunchRecord) -> None:
    record(launch)
    out = cli("source", "first", "--sass").out
    assert "STS [UR4], R5" in out or "← waits for LDG.E.CONSTANT at 0xb0" in out
    instructions = json.loads(cli("source", "first", "--json").out)["instructions"]
    causes = {each["waits_for"] for each in instructions if each["reason"] == "long_scoreboard"}
    assert any(cause is not None and instructions[cause]["opcode"].startswith("LDG") for cause in causes)
    barriers = {each["waits_for"] for each in instructions if each["reason"] == "barrier"}
    assert {instructions[cause]["opcode"].partition(".")[0] for cause in barriers - {None}} == {"BAR"}


def test_few_and_dropped_samples_are_said(cli: Cli, record: Callable[..., None], launch: LaunchRecord) -> None:
    record(changed(launch, stalls={"wait": {3: 7}, "selected": {3: 900}}, sample_count=907, dropped_bytes=4096))
    out = cli("source", "first").out
    assert "7 of 907 samples found a warp waiting; one in 2,048 cycles" in out
    assert "only 7 samples of waiting warps" in out
    assert "4,096 bytes of samples were dropped" in out


def test_code_without_a_line_table_shows_its_instructions(
    cli: Cli, record: Callable[..., None], launch: LaunchRecord
) -> None:
    assert launch.source is not None
    size = len(launch.source.sass)
    record(changed(launch, files=(), file_numbers=(-1,) * size, lines=(0,) * size))
    shown = cli("source", "first")
    assert shown.exit_code == 0
    assert "no line table" in shown.out
    assert shown.out.count("LDG.E.CONSTANT R4") == 1


def test_without_counters_the_command_that_collects_them_is_named(cli: Cli, record: Callable[..., None]) -> None:
    shown = cli("source", "second")
    assert (shown.exit_code, shown.out) == (2, "")
    assert shown.err == (
        "error: invented/second · n=2^20 · block=64 has no counters by instruction; collect them: cuprof ncu-collect "
        "experiment=study variants=second ncu=source\n"
    )


def test_a_variant_without_trials_is_not_suggested_for_itself(
    cli: Cli, record: Callable[..., None], project: Project
) -> None:
    with closing(sqlite3.connect(project.root / "db" / "cuprof.sqlite")) as connection, connection:
        connection.execute("DELETE FROM trial WHERE label LIKE 'invented/second%'")
    shown = cli("source", "invented/second")
    said = "error: no trial of invented/second is stored; run a sweep of it first\n"
    assert (shown.exit_code, shown.err) == (2, said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("invented/frist",), "no variant or imported profile is named 'invented/frist': did you mean invented/first"),
        (("first:block=96",), "no trial of first:block=96 is stored there: there is block=128; block=64"),
        (("first", "tune.items=4"), "no trial of first is stored there: there is no items"),
        (("first", "block"), "'block' is no coordinate"),
        (("first", "--kernel", "interleaved"), "unknown kernel 'interleaved' of invented/first"),
    ],
)
def test_bad_input_is_one_line(
    cli: Cli, record: Callable[..., None], launch: LaunchRecord, words: tuple[str, ...], said: str
) -> None:
    record(launch)
    shown = cli("source", *words)
    assert (shown.exit_code, shown.out) == (2, "")
    assert said in shown.err
    assert shown.err.count("\n") == 1


def test_an_imported_report_names_its_kernels(cli: Cli, project: Project, tmp_path: Path, imported: Path) -> None:
    give_database(project, imported)
    listed = cli("source", "source_counters")
    assert listed.exit_code == 2
    names = dict(
        zip(
            ("interleaved_divergent", "sequential", "last_warp", "vector4", "single_pass"),
            ("33740e74", "2b0d10d7", "0d76aba9", "3a5b2a36", "b100343e"),
            strict=True,
        )
    )
    for kernel, name in names.items():
        assert f"source_counters/{name} ({kernel})" in listed.err
        shown = cli("source", f"source_counters/{name}")
        assert shown.exit_code == 0
        assert f"kernel {kernel}, launch 1" in shown.out
        assert "its text is not stored" in shown.out
    assert "of last_warp_later as well (--kernel NAME)" in cli("source", f"source_counters/{names['last_warp']}").err
    (tmp_path / "sequential.cu").write_text(TEXT)
    found = cli("source", f"source_counters/{names['sequential']}", "--folder", str(tmp_path))
    assert "45.8%     1,441,792  long_scoreboard         statement_18();" in found.out


def test_a_bar_is_as_long_as_its_share() -> None:
    assert draw_bar(1.0) == "█" * 10
    assert draw_bar(0.0).strip() == ""
    assert draw_bar(0.45) == "████▌     "
    assert len(draw_bar(0.999)) == 10


def test_a_stripped_kernel_is_said_to_have_neither_lines_nor_instructions(
    cli: Cli, record: Callable[..., None], launch: LaunchRecord
) -> None:
    assert launch.source is not None
    size = len(launch.source.sass)
    record(changed(launch, sass=("",) * size, files=(), file_numbers=(-1,) * size, lines=(0,) * size))
    shown = cli("source", "first", "--sass")
    assert (shown.exit_code, shown.err) == (0, "")
    assert shown.out.count("no line table") == 1
    assert " 0x3c0  ▏            1.0%             0  drain" in shown.out  # what was counted at its offsets is kept
    assert "instructions" in cli("source", "first", "--json").out


def test_a_report_of_a_newer_format_is_read_or_refused_in_one_line(cli: Cli, project: Project) -> None:
    data = bytearray(REPORT.read_bytes())
    place = data.index(bytes((1 << 3, NEWEST_VERSION)), 8)
    data[place + 1] = NEWEST_VERSION + 20
    Path("newer.ncu-rep").write_bytes(data)
    shown = cli("ncu-import", "newer.ncu-rep")
    assert shown.exit_code in (0, 2)
    assert (shown.err.count("\n"), bool(shown.out)) == ((0, True) if shown.exit_code == 0 else (1, False)), shown.err
    if shown.exit_code == 0:
        assert "15 launches" in shown.out or cli("source", "newer").err.count("(") >= 5


@pytest.mark.parametrize("view", ["source_lines", "instructions", "stalls"])
def test_the_counters_by_instruction_are_exported(
    cli: Cli, record: Callable[..., None], launch: LaunchRecord, view: str
) -> None:
    record(launch)
    shown = cli("query", view, "--format", "json")
    assert shown.exit_code == 0
    rows = json.loads(shown.out)
    assert cli("query", view, "--format", "csv", "--output", "rows.csv").exit_code == 0
    assert len(Path("rows.csv").read_text(encoding="utf-8").splitlines()) == len(rows) + 1 > 10
    assert {row["launch_id"] for row in rows} == {1}


def test_an_imported_report_has_a_page_of_all_its_kernels(
    cli: Cli, project: Project, tmp_path: Path, imported: Path
) -> None:
    give_database(project, imported)
    sources = Path(__file__).parents[2] / "kernels" / "reduction"
    shown = cli("source", "source_counters", "--folder", str(sources), "--html", str(tmp_path / "heat.html"))
    assert (shown.exit_code, shown.err) == (0, "")
    page = (tmp_path / "heat.html").read_text()
    for kernel in ("interleaved_divergent", "sequential", "last_warp", "last_warp_later", "vector4"):
        assert f"{kernel}</h4>" in page.replace("<wbr>", "")
    assert 'style="--heat:56%"' in page
    assert "out[blockIdx.x] = shared[0]" in page
    nowhere = cli("source", "source_counters", "--html", str(tmp_path / "no" / "heat.html"))
    assert nowhere.exit_code != 0
    assert "cannot be written" in nowhere.err


@pytest.mark.parametrize("folder", [".", "./", "", "/"])
@pytest.mark.usefixtures("project")
def test_a_page_is_no_folder(cli: Cli, imported: Path, folder: str) -> None:
    refused = cli("source", "source_counters", "--store", str(imported), "--html", folder)
    assert (refused.exit_code, refused.err) == (2, f"error: --html {Path(folder)} is a folder; name a file\n")


@pytest.mark.parametrize("option", ["--json", "--sass"])
def test_a_page_and_another_form_exclude_each_other(cli: Cli, tmp_path: Path, option: str) -> None:
    refused = cli("source", "theirs", "--html", str(tmp_path / "heat.html"), option)
    assert refused.exit_code == 2
    assert refused.err == f"error: --html writes a page and {option} says how to print; leave one of the two out\n"
