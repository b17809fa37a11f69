"""Run a tool in a process of its own, time it whole, and take in what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TAIL_CHARACTERS = 1200
LONGEST_FAULT = 240


@dataclass(frozen=True)
class Answer:
    """What one process came to.

    Args:
        wall_s: from before its start until after its end.
        found: what it wrote to its answer file; empty where it wrote none.
        fault: why there is no result ("not installed: …"), or empty.
        printed: the end of what it printed, on both streams.
    """

    wall_s: float
    found: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""
    printed: str = ""


def ask(
    module: str,
    work: Path,
    *arguments: str,
    wrapper: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    limit_s: float = 120.0,
) -> Answer:
    """Run `python -m MODULE --answer FILE ARGUMENTS` and return what it wrote to the file.

    Args:
        work: folder for the answer and the log.
        wrapper: a program that runs Python, such as ncu with its options.
        environment: variables on top of this process's own.
    """
    work.mkdir(parents=True, exist_ok=True)
    answer = work / f"{module.rpartition('.')[2]}.answer.json"
    answer.unlink(missing_ok=True)
    command = [*wrapper, sys.executable, "-m", module, "--answer", str(answer), *arguments]
    ended = run(command, work, environment=environment, limit_s=limit_s)
    if answer.is_file():
        found = json.loads(answer.read_text())
        return Answer(ended.wall_s, found, str(found.get("fault", "")))
    return Answer(ended.wall_s, {}, ended.fault or "it left no answer")


def run(
    command: Sequence[str],
    work: Path,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    limit_s: float = 120.0,
    accept: Sequence[int] = (0,),
) -> Answer:
    """Run a command to its end; its output goes to a file in `work`, whose end is the fault of a failure.

    Args:
        folder: the folder that it runs in; this process's own when None.
        accept: exit codes that are no failure.
    """
    work.mkdir(parents=True, exist_ok=True)
    log = work / f"log-{len(list(work.glob('log-*')))}.txt"
    started = time.perf_counter()
    try:
        with log.open("wb") as output:
            code = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": python_path(), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=limit_s,
                check=False,
            ).returncode
    except FileNotFoundError:
        return Answer(0.0, fault=f"not installed: {command[0]}")
    except subprocess.TimeoutExpired:
        return Answer(time.perf_counter() - started, fault=f"stopped after {limit_s:g} s")
    wall_s = time.perf_counter() - started
    printed = log.read_text(errors="replace")[-TAIL_CHARACTERS:].strip()
    return Answer(wall_s, fault="" if code in accept else f"exit code {code}: {shorten(printed)}", printed=printed)


def shorten(text: str) -> str:
    """Return the end of a text in one line."""
    return " ".join(text.split())[-LONGEST_FAULT:]


def python_path() -> str:
    """Return PYTHONPATH with this checkout in front."""
    return os.pathsep.join([str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
