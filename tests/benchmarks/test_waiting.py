"""The commands of `benchmarks.waiting` are ones that cuprof takes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks import waiting
from benchmarks.process import ROOT, Answer
from cuprof.cli.judge import PARSER
from cuprof.config.composer import Composer
from cuprof.core.project import find_project

COMMANDS = [wait for wait in waiting.WAITS if wait.needs_gpu]


@pytest.mark.parametrize("wait", COMMANDS, ids=lambda wait: str(wait.name))
def test_every_command_is_one_that_cuprof_takes(
    wait: waiting.Wait, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = list[tuple[Sequence[str], Path]]()

    def note(command: Sequence[str], work: Path, *, folder: Path = ROOT, **_: Any) -> Answer:
        if command[1:3] == ["-m", "cuprof"]:
            commands.append((command[3:], folder))
            return Answer(0.0, fault="noted" if command[3] == "sweep" else "")
        return Answer(0.0)

    monkeypatch.setattr(waiting, "run", note)
    for name in ("vector_add.py", "matmul.py", "reduction.py", "expdist.py"):
        (tmp_path / name).touch()
    with suppress(waiting.NotMeasuredError):
        wait.measure(waiting.Bench(tmp_path, tmp_path))
    assert commands
    for (command, *words), folder in commands:
        if command == "judge":
            assert (folder / "kernels" / PARSER.parse_intermixed_args(words).family / "family.py").is_file()
            assert len(_files(words)) == 1
        else:
            settings = [word for word in words if word not in _files(words)]
            assert Composer(find_project(folder), settings).jobs("")


def _files(words: Sequence[str]) -> list[str]:
    return [word for word in words if Path(word).is_file()]
