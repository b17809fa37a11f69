"""Bad input at the level of the command line: exit code 2, one line, nothing stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.cli.init import make_project
from cuprof.core.errors import StoreError
from cuprof.core.project import Project
from tests.conftest import Result, missing_gpu

Cli = Callable[..., Result]


@pytest.fixture
def scale(project: Project) -> Project:
    """Make the example project of `cuprof init` the current one."""
    (project.root / "cuprof.toml").unlink()
    make_project(project.root)
    return project


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["experiment=scal"], "unknown experiment 'scal': did you mean scale"),
        (["family=scal"], "unknown family 'scal'"),
        (["family=scal", "experiment=scale"], "experiment=scale is a study of family scale, not of scal; leave one"),
        (["variants=nmpy"], "unknown variant 'nmpy' of family scale: did you mean numpy"),
        (["variants=glob(x*)"], "unknown variant 'x*'"),
        (["variants=numpy,!numpy"], "variants=numpy,!numpy leaves no variant of family scale"),
        (["baseline=nmpy"], "did you mean numpy"),
        (["tune.blok=64"], "did you mean block"),
        (["problem.m=3"], "unknown problem axis 'm' of family scale"),
        (["problem.preset=big"], "unknown preset 'big'"),
        (["problem.n=0"], "problem.n=0 is out of range"),
        (["problem.n=-4"], "problem.n=-4 is out of range"),
        (["problem.n=2**40"], "problem.n=2**40 is out of range"),
        (["problem.n=2**(2**99)"], "problem.n="),
        (["problem.n=many"], "problem.n=many is not a number"),
        (["problem.n=1.5"], "is not a whole number"),
        (["problem.n=__import__"], "is not a number"),
        (["problem.n='__import__(\"os\")'"], "problem.n="),
        (["problem.n="], "takes numbers and names"),
        (["tune.block=7"], "tune.block=7 is not allowed: plain takes block = 64"),
        (["tune.block=0"], "tune.block=0 is not allowed"),
        (["tune.block=2048"], "tune.block=2048 is not allowed"),
        (["measure.target=9"], "measure.target is 9.0; it must be from 1e-05 to 0.5"),
        ([f"measure.target=-{10**400}"], "measure.target is -inf; it must be from 1e-05 to 0.5"),
        (["experiment=${oc.decode:'1'}"], "the settings do not compose: "),
        (
            ["store.url=mysql://x"],
            "'mysql' is not supported; use postgresql+psycopg://USER@HOST/DATABASE or sqlite:///",
        ),
        (["store.url=sqlite:////proc/nowhere/x.sqlite"], "/proc/nowhere/x.sqlite"),
    ],
)
def test_a_bad_selection(cli: Cli, scale: Project, settings: list[str], message: str) -> None:
    experiment = [] if settings[0].startswith(("experiment=", "family=")) else ["experiment=scale"]
    result = cli("sweep", *experiment, *settings)
    assert result.exit_code == 2, result.err
    assert message in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""
    assert not (scale.root / "db" / "cuprof.sqlite").exists()


@pytest.mark.parametrize("place", ["/proc/nowhere/pages", "cuprof.toml", "cuprof.toml/pages"])
def test_a_folder_that_takes_no_page_is_found_before_anything_is_measured(cli: Cli, scale: Project, place: str) -> None:
    result = cli("sweep", "experiment=scale", "variants=numpy", "problem.n=64", f"report.path={place}")
    assert (result.exit_code, result.out) == (2, "")
    assert f"the page's folder {place} cannot be written: " in result.err
    assert result.err.count("\n") == 1
    assert not (scale.root / "db" / "cuprof.sqlite").exists()


@pytest.mark.parametrize("output", ["table", "json"])
def test_results_are_shown_where_the_page_fails_all_the_same(
    cli: Cli, scale: Project, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    def fail(*args: object, **kwargs: object) -> Path:
        raise StoreError("report cannot be written: the disk has gone")

    monkeypatch.setattr("cuprof.report.page.write", fail)
    settings = ("experiment=scale", "variants=numpy", "problem.n=64", "measure=quick", f"output={output}")
    result = cli("sweep", *settings)
    assert result.exit_code == 2
    assert result.err.endswith("error: report cannot be written: the disk has gone\n")
    if output == "json":
        assert json.loads(result.out)["report"] is None
    assert "numpy" in result.out


def test_no_gpu_for_a_selection_that_needs_one(cli: Cli, scale: Project) -> None:
    if not missing_gpu():
        pytest.skip("there is a GPU")
    result = cli("sweep", "experiment=scale", "variants=plain")
    assert result.exit_code == 2
    assert "none of the 2 trials can run here" in result.err
    assert not (scale.root / "db" / "cuprof.sqlite").exists()


def test_a_dry_run_lists_what_cannot_run_here(cli: Cli, scale: Project) -> None:
    if not missing_gpu():
        pytest.skip("there is a GPU")
    for command in ("sweep", "ncu-collect"):
        result = cli(command, "experiment=scale", "variants=plain", "dry_run=true")
        assert result.exit_code == 0
        assert "2 unavailable; nothing was run" in result.out


def test_a_family_that_raises_shows_its_own_frames(cli: Cli, scale: Project) -> None:
    folder = scale.root / "kernels" / "raising"
    folder.mkdir()
    (folder / "family.py").write_text("def broken():\n    return 1 / 0\n\nbroken()\n")
    result = cli("sweep", "family=raising")
    assert result.exit_code == 2
    assert "family.py" in result.err
    assert "ZeroDivisionError" in result.err
    assert "importlib" not in result.err
    assert "hydra" not in result.err


@pytest.mark.parametrize("content", [b"this is no database" * 99, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_corrupt_database_is_left_as_it_is(cli: Cli, scale: Project, content: bytes) -> None:
    file = scale.root / "db" / "cuprof.sqlite"
    file.write_bytes(content)
    result = cli("sweep", "experiment=scale")
    assert result.exit_code == 2
    assert "cuprof.sqlite" in result.err
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("database = ", "Invalid value (at line 1, column 12)"),
        ("database = 3", "write the URL in quotes"),
        ("databse = 'postgresql://me:secret@host/cuprof'", "it holds databse"),
        (f"a = {'[' * 9000}", "maximum recursion depth exceeded"),
        (f"a{'.a' * 9000} = 1", "it has more than 16384 bytes"),
        (" " * 20_000, "it has more than 16384 bytes"),
        ("\0" * 20_000, "it has more than 16384 bytes"),
    ],
)
def test_an_invalid_marker_file(cli: Cli, scale: Project, text: str, said: str) -> None:
    (scale.root / "cuprof.toml").write_text(f"{text}\n")
    result = cli("list", "families")
    assert result.exit_code == 2
    assert result.err.endswith(f'cuprof.toml may hold database = "<SQLAlchemy URL>" and nothing else: {said}\n')


def test_a_file_that_fails_while_it_is_read_is_named(cli: Cli, scale: Project) -> None:
    (scale.root / "tuner.py").write_text("import kernel_tuner\nkernel_tuner.tune_kernel('k', 'bad.cu', 1, [], {})\n")
    for command, name in (
        ("compare bad.json bad.json", "bad.json"),
        ("ncu-import bad.ncu-rep", "bad.ncu-rep"),
        ("sweep bad.py", "bad.py"),
        ("sweep tuner.py", "bad.cu"),
        ("sweep bad", "conf/experiment/bad.yaml"),
        ("list families", "cuprof.toml"),
    ):
        (scale.root / name).unlink(missing_ok=True)
        (scale.root / name).parent.mkdir(parents=True, exist_ok=True)
        (scale.root / name).symlink_to("/proc/self/mem")  # opens as a file, and has no first byte
        result = cli(*command.split())
        assert result.exit_code == 2
        assert result.err.startswith("error: ")
        assert result.err.endswith(f"{name} cannot be read: Input/output error\n"), result.err


def test_a_report_without_a_sweep(cli: Cli, scale: Project) -> None:
    result = cli("report", "experiment=scale")
    assert result.exit_code == 2
    assert result.err.count("\n") == 1


def test_a_dry_run_stores_nothing(cli: Cli, scale: Project) -> None:
    result = cli("sweep", "experiment=scale", "dry_run=true", "variants=numpy")
    assert result.exit_code == 0
    assert "2 missing; nothing was run" in result.out
    assert not (scale.root / "db" / "cuprof.sqlite").exists()


@pytest.mark.parametrize("command", ["sweep", "ncu-collect"])
def test_a_family_alone_is_composed_without_the_default_experiment(cli: Cli, scale: Project, command: str) -> None:
    result = cli(command, "family=scale", "variants=numpy", "dry_run=true")
    assert result.exit_code == 0, result.err
    assert "scale/numpy" in result.out


@pytest.mark.parametrize("variants", ["!plain", "glob(*,exclude=pl*)", "all,!cuda", "numpy"])
def test_variants_can_be_taken_out(cli: Cli, scale: Project, variants: str) -> None:
    result = cli("sweep", "experiment=scale", "dry_run=true", f"variants={variants}", "problem.n=8")
    assert result.exit_code == 0, result.err
    assert "scale/numpy" in result.out
    assert "scale/plain" not in result.out


def test_a_wrong_variant_fails_the_sweep_by_name(cli: Cli, scale: Project) -> None:
    family = scale.root / "kernels" / "scale" / "family.py"
    text = family.read_text() + (
        '\n\n@family.cpu("tripled")\ndef tripled(problem, tune, inputs, outputs):\n    """Wrong on purpose."""\n'
        '    return lambda: np.multiply(inputs["x"], np.float32(3), out=outputs["y"])\n'
    )
    family.write_text(text)
    result = cli("sweep", "experiment=scale", "measure=quick", "variants=numpy,tripled", "problem.n=64", "report=none")
    assert result.exit_code == 1
    assert result.err.count("WRONG scale/tripled · n=64: y[") == 1
    assert "failed:" not in result.err
    assert "WRONG tripled: " in result.out


def test_the_outside_of_a_project_works_too(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "reduction" in cli("list", "families").out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "status --store sqlite:///{}",
        "merge {}",
        "sweep {}",
        "sweep {}.py",
        "query {}",
        "compare {}.sqlite x.json",
        "judge scale {}.py",
        "init {}",
        "report report.path={}",
        "ncu-import {}",
        "query best --output {}.csv",
        "backup {}",
        "check {}",
    ],
)
def test_a_path_too_long_for_a_file_is_one_line(cli: Cli, scale: Project, line: str) -> None:
    result = cli(*line.format("long" * 80).split())
    assert result.exit_code == 2
    assert "Traceback" not in result.err
    assert len(result.err) < 3000
