from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Result

Cli = Callable[..., Result]


def test_a_new_project_runs(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    assert cli("init", str(folder)).exit_code == 0
    monkeypatch.chdir(folder)
    families = {record["family"] for record in json.loads(cli("list", "families", "--json").out)}
    assert {"scale", "reduction"} <= families
    settings = ["measure=quick", "variants=numpy", "problem.n=2**12", "output=json"]
    result = cli("sweep", "experiment=scale", *settings)
    assert result.exit_code == 0, result.err
    shown = json.loads(result.out)
    (trial,) = shown["trials"]
    assert (trial["state"], trial["problem"]) == ("ok", {"n": 4096})
    assert Path(shown["report"]).parent == folder / "reports" / "out"
    assert (folder / "db" / "cuprof.sqlite").exists()


def test_the_example_kernel_compiles(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    from cuprof.builds.nvrtc import NvrtcBuild
    from cuprof.cli.init import make_project
    from cuprof.core.errors import MissingDependencyError

    make_project(tmp_path)
    try:
        cubin = NvrtcBuild(
            (tmp_path / "kernels" / "scale" / "plain.cu").read_text(), name="plain.cu", arch="sm_90"
        ).run()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    assert cubin.image


def test_the_marker_and_the_ignored_files(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("init", ".")
    assert result.exit_code == 0
    assert "cd " not in result.out
    assert {"cuprof.toml", ".gitignore", "README.md", "kernels", "conf", "db", "experiments", "reports"} == {
        path.name for path in tmp_path.iterdir()
    }


def test_a_project_is_not_made_twice(cli: Cli, tmp_path: Path) -> None:
    cli("init", str(tmp_path))
    result = cli("init", str(tmp_path))
    assert result.exit_code == 2
    assert "is a cuprof project already" in result.err


def test_nothing_is_written_over(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    result = cli("init", str(tmp_path))
    assert result.exit_code == 2
    assert "README.md is there already" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("name", ["plain", "sp ace/ü", "-x", "it's $HOME"])
def test_the_next_commands_work_as_they_are_printed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    line = next(line for line in cli("init", "--", name).out.splitlines() if "cd " in line)
    done = subprocess.run(["sh", "-c", f"{line} && pwd"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / name}\n"


def test_an_empty_name_is_not_the_current_folder(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli("init", "")
    assert (done.exit_code, done.out) == (2, "")
    assert "the name is empty; write . for the current folder" in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("argv", [[], ["/proc/nowhere"]])
def test_bad_input(cli: Cli, argv: list[str]) -> None:
    result = cli("init", *argv)
    assert result.exit_code == 2
    assert result.err.count("\n") == 1
