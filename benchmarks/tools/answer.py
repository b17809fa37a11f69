"""The child's side of `benchmarks.process.ask`: do the work, write what came of it."""

from __future__ import annotations

import argparse
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def answer(work: Callable[[argparse.Namespace], dict[str, Any]], parser: argparse.ArgumentParser | None = None) -> int:
    """Write what `work` returns to the file named by --answer, or why there is nothing, and return the exit code."""
    parser = parser or argparse.ArgumentParser()
    parser.add_argument("--answer", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        found = work(arguments)
    except ImportError as error:
        found = {"fault": f"not installed: {error}"}
    except Exception as error:  # a process border: the table says what went wrong with this tool
        traceback.print_exc()
        found = {"fault": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    arguments.answer.write_text(json.dumps(found))
    return 1 if "fault" in found else 0
