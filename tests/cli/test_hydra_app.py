"""The Hydra plumbing with tasks of its own: axes, jobs, launchers, exit codes, the project's configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cuprof.cli.hydra_app import HydraCommand
from cuprof.cli.main import main
from cuprof.config.composer import compose
from cuprof.core.errors import ConfigError, CuprofError, SelectionError, UnknownNameError
from cuprof.core.processes import child_environment
from cuprof.core.project import Project, bundled
from tests.cli import tasks
from tests.living import wait_for_end


def run(argv: Sequence[str], task: Callable[..., int]) -> int:
    return HydraCommand("sweep", task)(argv)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


WORKS = """
import os, time
from cuprof.cli.hydra_app import beside
beside(lambda: (print(os.getpid(), flush=True), time.sleep(600)), ["json"])
"""


def test_a_copy_that_composes_ends_with_the_command() -> None:
    with subprocess.Popen([sys.executable, "-c", WORKS], stdout=subprocess.PIPE, env=child_environment()) as command:
        assert command.stdout is not None
        copy = int(command.stdout.readline())
        command.kill()
    wait_for_end(copy)


SPARE = """
import sys, time
from pathlib import Path
from cuprof.cli.hydra_app import beside
def work():
    while not Path("imported").exists():
        time.sleep(0.01)
    return "composed"
assert beside(work, ["json"], ["missing", "spare"]) == "composed"
"""


def test_what_comes_later_is_imported_as_long_as_composing_takes(tmp_path: Path) -> None:
    (tmp_path / "spare.py").write_text("open('imported', 'w').close()")
    subprocess.run([sys.executable, "-c", SPARE], check=True, cwd=tmp_path, env=child_environment())


def test_axes_stay_in_one_job(project: Project) -> None:
    argv = ["problem.n=2**20,2**24", "tune.block=64,128", "variants=sequential,last_warp"]
    assert run(argv, tasks.note) == 0
    (facts,) = tasks.noted(project.root)
    assert facts["experiment"] == "reduction"
    assert facts["problem"] == {"n": ["2**20", "2**24"], "dtype": ["float32"]}
    assert facts["tune"] == {"block": [64, 128]}
    assert facts["variants"] == ["sequential", "last_warp"]
    assert (
        facts["command_line"] == "cuprof sweep 'problem.n=2**20,2**24' tune.block=64,128 variants=sequential,last_warp"
    )
    assert facts["project"] == str(project.root)


def test_one_job_leaves_no_files(project: Project) -> None:
    before = files(project.root)
    assert run(["problem.n=1,2"], tasks.note) == 0
    assert files(project.root) - before == {"noted-0.005.json"}


def test_the_process_is_left_as_it_was(project: Project) -> None:
    argv, environment = list(sys.argv), dict(os.environ)
    run([], tasks.note)
    assert (sys.argv, dict(os.environ)) == (argv, environment)


def test_a_list_on_another_key_makes_jobs(project: Project) -> None:
    assert run(["measure=quick,precise", "problem.n=1,2"], tasks.note) == 0
    facts = tasks.noted(project.root)
    assert [each["target"] for each in facts] == [0.001, 0.02]
    assert all(each["problem"] == {"n": [1, 2], "dtype": ["float32"]} for each in facts)
    assert files(project.root) == {"cuprof.toml", "noted-0.001.json", "noted-0.02.json"}


@pytest.mark.parametrize(("task", "code"), [(tasks.fail_when_quick, 1), (tasks.refuse_when_quick, 2)])
def test_a_failing_job_fails_the_command_and_stops_no_other(
    project: Project, capfd: pytest.CaptureFixture[str], task: Callable[..., int], code: int
) -> None:
    assert run(["measure=quick,precise"], task) == code
    assert 0.001 in [each["target"] for each in tasks.noted(project.root)]
    assert ("error: not quick\n" in capfd.readouterr().err) == (code == 2)


def test_an_error_in_the_task_is_the_command_s(project: Project) -> None:
    with pytest.raises(SelectionError, match="not quick"):
        run(["measure=quick"], tasks.refuse_when_quick)


def test_an_unexpected_error_is_raised(project: Project) -> None:
    with pytest.raises(ZeroDivisionError, match="broken"):
        run([], tasks.break_down)


@pytest.mark.parametrize("argv", [[], ["-m"]])
def test_an_interrupt_ends_all(project: Project, argv: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(argv, tasks.interrupt)


def test_options_may_stand_anywhere(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["measure=quick", "--cfg", "job", "problem.n=7", "-p", "problem"], tasks.break_down) == 0
    out = capsys.readouterr().out
    assert "'n':\n- 7\n" in out
    assert "target" not in out


def test_info_shows_the_projects_configuration_first(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (project.root / "conf").mkdir()
    assert run(["--info", "searchpath"], tasks.break_down) == 0
    out = capsys.readouterr().out
    assert 0 < out.index("project ") < out.index("main ")


def test_the_projects_files_hide_the_bundled_ones(project: Project) -> None:
    folder = project.root / "conf" / "experiment"
    folder.mkdir(parents=True)
    text = "family: mine\nproblem: {size: [2**10, 12]}\n"
    (folder / "reduction.yaml").write_text("# @package _global_\n" + text)
    (folder / "mine.yaml").write_text("# @package _global_\ndefaults:\n  - override /measure: quick\n" + text)
    assert run([], tasks.note) == 0
    assert run(["experiment=mine"], tasks.note) == 0
    hidden, mine = tasks.noted(project.root)
    assert (hidden["composed"], hidden["problem"]) == ("mine", {"size": ["2**10", 12]})
    assert (mine["experiment"], mine["target"]) == ("mine", 0.02)


def test_a_folder_of_configuration_can_be_added(project: Project, tmp_path: Path) -> None:
    extra = tmp_path / "extra" / "experiment"
    extra.mkdir(parents=True)
    (extra / "added.yaml").write_text("# @package _global_\nfamily: added\n")
    assert run(["experiment=added", "--config-dir", str(extra.parent)], tasks.note) == 0
    assert tasks.noted(project.root)[0]["composed"] == "added"


def test_a_folder_that_is_added_hides_the_projects_and_the_bundled_ones(project: Project, tmp_path: Path) -> None:
    for folder, family in ((project.root / "conf", "own"), (tmp_path / "extra", "added")):
        (folder / "experiment").mkdir(parents=True)
        (folder / "experiment" / "reduction.yaml").write_text(f"# @package _global_\nfamily: {family}\n")
    assert run(["--config-dir", str(tmp_path / "extra")], tasks.note) == 0
    assert tasks.noted(project.root)[0]["composed"] == "added"


def test_axes_of_an_experiment_can_be_taken_away(project: Project) -> None:
    assert run(["~problem", "variants=cpu_numpy"], tasks.note) == 0
    assert tasks.noted(project.root)[0]["problem"] == {}


def test_a_family_without_an_experiment_takes_nothing_of_the_default_one(project: Project) -> None:
    assert run(["family=meta"], tasks.note) == 0
    (facts,) = tasks.noted(project.root)
    assert (facts["composed"], facts["experiment"], facts["problem"]) == ("meta", "", {})
    assert compose(["family=meta"], project).baseline == ""


def test_several_families_make_jobs_without_the_default_experiment(project: Project) -> None:
    assert run(["family=one,two"], tasks.name_experiment) == 0
    assert (project.root / "experiments.txt").read_text() == "\n\n"


def test_a_main_configuration_of_ones_own_may_choose_no_experiment(project: Project) -> None:
    text = (bundled("conf") / "config.yaml").read_text().replace("  - experiment: reduction\n", "")
    (project.root / "conf").mkdir()
    (project.root / "conf" / "plain.yaml").write_text(text)
    assert run(["-cn", "plain", "family=meta"], tasks.note) == 0
    assert tasks.noted(project.root)[0]["composed"] == "meta"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["experiment=reducton"], "unknown experiment 'reducton': did you mean reduction"),
        (["measure=quik"], "unknown measure 'quik': did you mean quick"),
        (["measure=quick,quik"], "unknown measure 'quik': did you mean quick"),
        (["check=[quick]"], "unknown check 'quick': there are fixed, fresh"),
        (["launch=[slrm]"], "unknown launch 'slrm': did you mean slurm"),
        (["measure={a:1}"], "unknown setting 'measure.a': did you mean"),
        (["exprimnt=x"], "unknown setting 'exprimnt': did you mean experiment"),
        (["n=8"], "unknown setting 'n' (an axis is problem.n=…, a tunable tune.n=…)"),
        (
            ["a.cu"],
            "'a.cu' is a kernel's source; a Python file says how it is launched: cuprof.kernel(NAME, ",
        ),
        (["a.py", "b.py"], "a.py, b.py: give one file"),
        (["measure.targt=1"], "unknown setting 'measure.targt': did you mean measure.target"),
        (["~foo"], "unknown setting to delete 'foo'"),
        (["hydra/launcher=nowhere", "measure=quick,hot"], "unknown hydra/launcher 'nowhere'"),
        (["measure.target=interval(0.1,0.2)"], "is an interval; write range(start,stop,step) or a comma list"),
        (["--config-dir", "/nowhere"], "'/nowhere' not found"),
        (["-cn", "other"], "there is no configuration file other.yaml"),
        (["--dry-run"], "settings have no dashes; write dry_run=…"),
        (["--retry=all"], "write retry=all"),
        (["--multirn"], "did you mean --multirun"),
        (["-x"], "settings are written key=value; see cuprof sweep --help"),
        (["--cfg"], "expected one argument"),
        (["--cfg", "jobb"], "argument --cfg/-c: 'jobb' is not known: did you mean job"),
        (["reductoin"], "is not a setting (NAME=VALUE), a family or an experiment: did you mean reduction"),
        (["problem.n.x=3"], "problem.n is an axis and has no parts; write problem.n=VALUE"),
        (["variants.x=3"], "variants is an axis and has no parts"),
        (["measure.modes.x=3"], "the settings do not compose: invalid literal"),
        (["-p", "measure"], "--package is about what --cfg shows"),
        (["--cfg", "job", "-m"], "not allowed with argument --cfg"),
        (["--experimental-rerun=x"], "unknown option --experimental-rerun=x"),
        (["launch=slrm"], "unknown launch 'slrm': did you mean slurm"),
        (["launch.jobs=2"], "launch.jobs is 2 and launch=local is this process; take launch=joblib"),
    ],
)
def test_what_does_not_compose_is_one_line_and_runs_nothing(project: Project, argv: list[str], message: str) -> None:
    with pytest.raises(CuprofError) as caught:
        run(argv, tasks.break_down)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (project.root / "db" / "cuprof.sqlite").exists()


def test_a_broken_file_of_configuration_is_named(project: Project) -> None:
    folder = project.root / "conf" / "experiment"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("# @package _global_\nfamily: [unclosed\n")
    with pytest.raises(CuprofError, match=r"broken\.yaml"):
        run(["experiment=broken"], tasks.note)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfe", "'utf-8' codec can't decode .* invalid start byte"),
        (b"day: !!int Monday", "invalid literal for int"),
        (b"[" * 600, "maximum recursion depth exceeded"),
        (b"day: !!bool maybe", "a value does not fit the type that !! names before it"),
        (b"day: !!timestamp x", "a value does not fit the type that !! names before it"),
        (b"day: !!set [a]", "a value does not fit the type that !! names before it"),
        (b"5", "it is a single value; write NAME: VALUE"),
    ],
)
@pytest.mark.parametrize("choice", ["experiment=bytes", "measure=bytes"])
def test_a_file_of_configuration_that_cannot_be_read_is_named(
    project: Project, tmp_path: Path, choice: str, content: bytes, told: str
) -> None:
    file = tmp_path / "extra" / choice.partition("=")[0] / "bytes.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"bytes\.yaml cannot be read: {told}"):
        run([choice, "--config-dir", str(tmp_path / "extra")], tasks.break_down)


def test_a_file_with_a_key_that_is_no_name_is_named(project: Project, tmp_path: Path) -> None:
    (tmp_path / "extra" / "experiment").mkdir(parents=True)
    (tmp_path / "extra" / "experiment" / "odd.yaml").write_text("# @package _global_\nnull: 1\n")
    with pytest.raises(ConfigError, match=r"odd\.yaml has a key that is no name, such as null; write NAME: VALUE"):
        run(["experiment=odd", "--config-dir", str(tmp_path / "extra")], tasks.break_down)


def test_what_goes_wrong_inside_a_task_is_not_put_on_the_configuration(project: Project) -> None:
    with pytest.raises(FileNotFoundError):
        run([], tasks.open_nothing)
    with pytest.raises(FileNotFoundError):
        run(["-m"], tasks.open_nothing)


def test_a_part_that_is_not_there_is_one_line(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--cfg", "job", "-p", "nope"]) == 2
    assert capfd.readouterr().err == "error: package 'nope' not found in config\n"


def test_an_experiment_with_an_unknown_key_is_refused(project: Project) -> None:
    folder = project.root / "conf" / "experiment"
    folder.mkdir(parents=True)
    (folder / "odd.yaml").write_text("# @package _global_\nfamily: x\nmeasure: {max_second: 3}\n")
    with pytest.raises(UnknownNameError, match=r"'measure\.max_second': did you mean measure\.max_seconds or "):
        run(["experiment=odd"], tasks.break_down)


@pytest.mark.parametrize(
    ("text", "settings"),
    [("family: x\n", ()), ("family: x\n", ("problem.n=4",)), ("defaults: [override /measure: quick]\nfamily: x\n", ())],
)
def test_an_experiment_without_its_package_line_is_named(
    project: Project, capsys: pytest.CaptureFixture[str], text: str, settings: tuple[str, ...]
) -> None:
    folder = project.root / "conf" / "experiment" / "own"
    folder.mkdir(parents=True)
    (folder / "nopkg.yaml").write_text(text)
    code = main(["sweep", "experiment=own/nopkg", *settings])
    (line,) = capsys.readouterr().err.splitlines()
    assert (code, line) == (2, "error: experiment/own/nopkg.yaml lacks its first line '# @package _global_'")


def test_a_file_without_the_rest_of_its_group_is_named(project: Project) -> None:
    file = project.root / "conf" / "measure" / "m2.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("target: 0.1\n")
    message = "the chosen file of measure/ has no measure.modes; begin it with the group's default file"
    with pytest.raises(ConfigError, match=message):
        run(["measure=m2", "measure.modes=hot"], tasks.break_down)


def test_nearest_names_are_kept_with_the_error(project: Project) -> None:
    with pytest.raises(UnknownNameError) as caught:
        run(["experiment=reducton"], tasks.break_down)
    assert "reduction" in caught.value.known


def test_an_experiment_of_several_runs_each_and_keeps_the_worst_exit_code(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["experiment=all_studies", "measure=quick"]
    assert run(argv, tasks.name_experiment) == 0
    names = (project.root / "experiments.txt").read_text().split()
    assert names == ["reduction", "cuconv", "convlab", "filter3x3", "cnn_layer"]
    assert "job 4: experiment=cnn_layer measure=quick" in " ".join(capsys.readouterr().err.split())
    assert run(argv, tasks.fail_at_convlab) == 1
    assert (project.root / "experiments.txt").read_text().split() == 2 * names


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["experiment=all_studies", "problem.n=1"], "problem.n is of one family"),
        (["experiment=all_studies", "--cfg", "job"], "--cfg and --info show one: write experiment=reduction"),
    ],
)
def test_an_experiment_of_several_says_what_it_cannot(project: Project, argv: list[str], message: str) -> None:
    with pytest.raises(CuprofError) as caught:
        run(argv, tasks.break_down)
    assert message in str(caught.value)


@pytest.mark.parametrize("path", ["a.sqlite", "with space, comma = and 'quotes'.sqlite", "ends in \\"])
def test_a_database_is_named_as_in_every_command(project: Project, path: str) -> None:
    url = f"sqlite:///{project.root}/{path}"
    assert run(["problem.n=1,2", "--store", url], tasks.note) == 0
    (facts,) = tasks.noted(project.root)
    assert facts["url"] == url


@pytest.mark.parametrize("words", [["--store", "mine.sqlite"], ["store.url=mine.sqlite"]])
def test_a_database_may_be_named_by_its_file(project: Project, words: list[str]) -> None:
    assert run(words, tasks.note) == 0
    assert tasks.noted(project.root)[0]["url"] == f"sqlite:///{project.root / 'mine.sqlite'}"


def test_several_threads_may_compose(project: Project) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda budget: compose([f"measure.max_seconds={budget}"], project), range(1, 9))]
    assert [each.measure.max_seconds for each in found] == [*range(1, 9)]
