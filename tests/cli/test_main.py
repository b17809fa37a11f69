from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof import __version__
from cuprof.cli import main as entry
from cuprof.cli.main import COMMANDS
from cuprof.core.errors import StoreError, UsageError
from cuprof.core.project import BUNDLED
from tests.conftest import Result

Cli = Callable[..., Result]
HEAVY = ("numpy", "pandas", "hydra", "omegaconf", "sqlalchemy", "rich", "plotly", "numba", "pynvml")


@pytest.mark.parametrize("argv", [(), ("--help",), ("-h",), ("help",)])
def test_help_names_every_command(cli: Cli, argv: tuple[str, ...]) -> None:
    result = cli(*argv)
    assert result.exit_code == 0
    assert all(f"  {name} " in result.out for name in COMMANDS)
    assert "examples:" in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_has_examples(cli: Cli, command: str) -> None:
    result = cli(command, "--help")
    assert result.exit_code == 0
    assert f"usage: cuprof {command}" in result.out
    assert f"cuprof {command}" in result.out.partition("examples:")[2]


@pytest.mark.parametrize("argv", [[], ["--help"], ["sweep", "--help"], ["ncu-collect", "--help"]])
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    code = (
        "import sys; from cuprof.cli.main import main; main(sys.argv[1:]); "
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    assert run.stderr.strip() == "[]"


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_version(cli: Cli, word: str) -> None:
    assert cli(word).out == f"cuprof {__version__}\n"


@pytest.mark.parametrize("argv", ["list families", "sweep x.py", "compare a.json b.json", "query best --store a.db"])
def test_a_removed_current_folder_is_one_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: str
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = cli(*argv.split())
    assert (result.exit_code, result.err) == (2, "error: the current folder has been removed; change to another one\n")


@pytest.mark.parametrize(("typed", "meant"), [("swep", "sweep"), ("export", "best")])
def test_an_unknown_command_names_the_nearest(cli: Cli, typed: str, meant: str) -> None:
    result = cli(typed)
    assert (result.exit_code, result.err) == (2, f"error: unknown command {typed!r}: did you mean {meant}?\n")


def test_a_file_is_no_command_and_is_offered_to_sweep(cli: Cli) -> None:
    result = cli("my add.py", "measure=quick")
    said = "error: my add.py is no command; to run a file, write cuprof sweep 'my add.py'\n"
    assert (result.exit_code, result.err) == (2, said)


@pytest.mark.parametrize(("command", "missing"), [("diff", "BASE, NEW"), ("source", "VARIANT")])
def test_what_is_optional_is_not_called_required(cli: Cli, command: str, missing: str) -> None:
    said = f"error: the following arguments are required: {missing}; see cuprof {command} --help\n"
    assert cli(command).err == said


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UsageError("no"), 2, "error: no"),
        (StoreError("locked"), 2, "error: locked"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (PermissionError(13, "", "kept/x.py"), 2, "error: kept/x.py: permission denied; check its permissions and its"),
    ],
)
def test_errors_become_one_line_and_an_exit_code(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, text: str
) -> None:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(entry, "_dispatch", fail)
    result = cli("sweep")
    assert result.exit_code == code
    assert result.err.startswith(text)
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("error", [ZeroDivisionError(), PermissionError(1, "of no file")], ids=repr)
def test_an_unexpected_error_keeps_its_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(entry, "_dispatch", fail)
    with pytest.raises(type(error)):
        cli("sweep")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m cuprof list metrics | head -n 1"
    run = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    ("argv", "unbuffered"),
    [(["--version"], ""), (["--version"], "1"), (["list", "metrics"], "1"), (["sweep", "--cfg", "job"], "")],
)
def test_a_full_disk_is_one_line(argv: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "cuprof", *argv]
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (run.returncode, run.stderr) == (2, "error: the output cannot be written: No space left on device\n")


def test_the_module_and_the_script_are_one() -> None:
    run = subprocess.run([sys.executable, "-m", "cuprof", "-V"], capture_output=True, text=True, check=True)
    assert run.stdout == f"cuprof {__version__}\n"


def test_a_file_of_the_current_folder_hides_no_module(tmp_path: Path) -> None:
    for name in ("numpy", "queue", "argparse", "hydra"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a file of the user')\n")
    command = [sys.executable, "-m", "cuprof", "sweep", "family=reduction", "variants=cpu_numpy", "dry_run=true"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (run.returncode, "a file of the user" in run.stderr) == (0, False), run.stderr


def test_a_candidate_of_the_current_folder_is_no_optional_module(tmp_path: Path) -> None:
    names = ("seccomp", "pyseccomp")
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"if __name__ == '{name}':\n    print('imported')\n")
    family = Path(__file__).parents[1] / "data" / "families" / "vector"
    command = [sys.executable, "-m", "cuprof", "judge", str(family), *(f"{name}.py" for name in names), "--as-root"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (run.stdout.count("adds no variant"), "imported" in run.stdout) == (2, False), run.stdout + run.stderr


def _check_out(folder: Path) -> Path:
    """Copy the package into a folder, with links to what lies beside it; return its own root."""
    root = Path(__file__).parents[2]
    shutil.copytree(root / "cuprof", folder / "cuprof", ignore=shutil.ignore_patterns("__pycache__"))
    for beside in ("pyproject.toml", *BUNDLED):
        (folder / beside).symlink_to(root / beside)
    return root


def test_nor_is_one_in_a_checkout(tmp_path: Path) -> None:
    root, name = _check_out(tmp_path), "seccomp"
    (tmp_path / f"{name}.py").write_text(f"if __name__ == '{name}':\n    print('imported')\n")
    family = root / "tests" / "data" / "families" / "vector"
    command = [sys.executable, "-m", "cuprof", "judge", str(family), f"{name}.py", "--as-root"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, env=environment)
    assert (run.stdout.count("adds no variant"), "imported" in run.stdout) == (1, False), run.stdout + run.stderr


BESIDE = """
import numpy as np
import cuprof
from beside import double
cuprof.compare(lambda x: x + x, double, inputs=np.ones(64, np.float32))
"""


def test_a_script_in_a_checkout_imports_what_is_there(tmp_path: Path) -> None:
    _check_out(tmp_path)
    (tmp_path / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "mine.py").write_text(BESIDE)
    words = ("sweep", "scripts/mine.py", "measure=quick", "report=none", f"store.url=sqlite:///{tmp_path}/a.sqlite")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "cuprof", *words]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, env=environment)
    assert (run.returncode, "2 measured" in run.stderr) == (0, True), run.stdout + run.stderr


@pytest.mark.parametrize("asked", [True, False])
def test_an_error_over_what_an_interrupt_left_half_made_is_an_interrupt(
    asked: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hydra's copies of its configuration end so: what puts a flag back finds an object that is not whole."""

    def torn(words: list[str]) -> int:
        if asked:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        raise AttributeError("_flags_cache")

    monkeypatch.setattr(entry, "_dispatch", torn)
    if asked:
        assert entry.main(["sweep"]) == 130
        assert capsys.readouterr().err.startswith("interrupted; ")
    else:
        with pytest.raises(AttributeError, match="_flags_cache"):
            entry.main(["sweep"])
