"""What every benchmark prints and keeps: one table on the standard output, a CSV and a JSON file."""

from __future__ import annotations

import argparse
import csv
import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from cuprof.core.errors import CuprofError

Row = Mapping[str, Any]
RECORDED = (
    "cuda-bench", "kernel-tuner", "triton", "torch", "nsight-python", "cupti-python", "cupy-cuda13x", "cuda-bindings",
    "ncu-report", "numpy",
)  # fmt: skip


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the option that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/out"), help="folder for the CSV and JSON (default: %(default)s)"
    )
    return parser


def format_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return rows as text, numbers to the right; a column that a row lacks stays empty."""
    cells = [[format_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[place]) for line in cells), 0) for place, column in enumerate(columns)]
    numeric = [
        all(isinstance(row.get(column), int | float | None) for row in rows) and bool(rows) for column in columns
    ]

    def join(line: Sequence[str]) -> str:
        places = zip(line, widths, numeric, strict=True)
        return "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in places).rstrip()

    return "\n".join([join(columns), join(["-" * width for width in widths]), *map(join, cells)])


def format_cell(value: Any) -> str:
    """Return one value as text: floats with three decimals below 100, one above."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"
    return str(value)


def report(
    name: str, columns: Sequence[str], rows: Sequence[Row], folder: Path, criteria: Mapping[str, bool | None]
) -> int:
    """Print the table and what was asked of it, keep both in `folder`, and return the exit code.

    Args:
        name: of the files.
        criteria: what must hold → whether it does; None where it could not be told.

    Returns:
        0 where every criterion holds, 1 where one does not or could not be told.
    """
    print(format_table(columns, rows))
    for text, holds in criteria.items():
        print(f"{'not told' if holds is None else 'holds' if holds else 'DOES NOT HOLD'}: {text}")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    kept = {"benchmark": name, "versions": versions(), "criteria": dict(criteria), "rows": [dict(row) for row in rows]}
    (folder / f"{name}.json").write_text(json.dumps(kept, indent=1, default=str) + "\n")
    return 0 if all(criteria.values()) else 1


def start(main: Callable[[], int]) -> int:
    """Run a benchmark's main and return its exit code: 2, and one line, where it cannot run at all."""
    try:
        return main()
    except CuprofError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def versions() -> dict[str, str]:
    """Return the versions of what takes part, as far as it is installed."""
    found = {"python": platform.python_version()}
    for name in RECORDED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
