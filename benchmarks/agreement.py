"""Cold times of ten kernels by cuprof, CUPTI, Nsight Compute, nvbench and Triton, side by side.

    python -m benchmarks.agreement --out FOLDER

Every tool runs in a process of its own on the same compiled kernels and buffers of the same sizes. Clocks are left
alone by all of them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import require_gpu
from benchmarks.ncu import ncu_command, read_durations
from benchmarks.process import Answer, ask
from benchmarks.table import make_parser, report, start
from benchmarks.ten_kernels import NAMES

TOOLS = ("cuprof", "CUPTI", "ncu", "nvbench", "Triton")
BOUNDS = {"CUPTI": (0.3, 0.01), "ncu": (1.3, 0.01)}
"""Tool → how far cuprof may lie from it: microseconds, plus a part of the tool's own figure."""
INTERVALS = {"cuprof": "±%", "ncu": "ncu ±%"}
"""Tool → column of how far the interval of its median (95 %) reaches."""
COLUMNS = (
    "kernel", "cuprof", "±%", "samples", "CUPTI", "-CUPTI", "CUPTI ok", "ncu", "ncu ±%", "-ncu", "ncu ok",
    "nvbench", "Triton",
)  # fmt: skip
MODULES = {
    "cuprof": "benchmarks.tools.ten_cuprof",
    "CUPTI": "benchmarks.tools.ten_cupti",
    "nvbench": "benchmarks.tools.ten_nvbench",
    "Triton": "benchmarks.tools.ten_triton",
}


def agrees(ours_us: float, theirs_us: float, tool: str, spread: float = 0.0) -> bool:
    """Return whether cuprof's time lies within the bound for this tool.

    Args:
        spread: how far the interval of the tool's median reaches, as a part of it: a time beyond the bound contradicts
            the tool only where it is beyond it from the interval's near end too.
    """
    absolute, relative = BOUNDS[tool]
    return abs(ours_us - theirs_us) <= absolute + (relative + spread) * theirs_us


def make_rows(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[dict[str, Any]]:
    """Return a row a kernel, times in microseconds.

    Args:
        found: tool → what its process answered; tools without an answer are left out.
    """
    rows = []
    for kernel in NAMES:
        row: dict[str, Any] = {"kernel": kernel}
        for tool, answered in found.items():
            if kernel in answered.get("median_ns", {}):
                row[tool] = answered["median_ns"][kernel] * 1e-3
            if kernel in answered.get("low_ns", {}):
                low, high = answered["low_ns"][kernel] * 1e-3, answered["high_ns"][kernel] * 1e-3
                row[INTERVALS[tool]] = 100 * max(high - row[tool], row[tool] - low) / row[tool]
        ours = row.get("cuprof")
        if ours is not None:
            row["samples"] = found["cuprof"]["samples"][kernel]
        for tool in BOUNDS:
            if ours is not None and tool in row:
                spread = row.get(f"{tool} ±%", 0.0) / 100
                row |= {f"-{tool}": ours - row[tool], f"{tool} ok": agrees(ours, row[tool], tool, spread)}
        rows.append(row)
    return rows


def make_criteria(rows: Sequence[Mapping[str, Any]]) -> dict[str, bool | None]:
    """Return what is asked of the rows, and whether it holds; None where a tool gave nothing for a kernel."""
    criteria: dict[str, bool | None] = {}
    for tool, (absolute, relative) in BOUNDS.items():
        told = [row.get(f"{tool} ok") for row in rows]
        text = f"cuprof within {absolute} µs + {relative:.0%} of {tool} for all {len(rows)} kernels"
        criteria[text] = None if None in told else all(told)
    return criteria


def ask_tool(tool: str, work: Path) -> Answer:
    """Run one tool and return its answer."""
    if tool != "ncu":
        return ask(MODULES[tool], work)
    file = work / "ten_kernels.ncu-rep"
    ended = ask("benchmarks.tools.ten_launch", work, wrapper=ncu_command(file, ["gpu__time_duration.sum"], NAMES))
    if ended.fault or not file.is_file():
        return Answer(ended.wall_s, fault=ended.fault or "ncu left no report")
    return Answer(ended.wall_s, read_durations(file))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; return 0 where cuprof agrees with CUPTI and with ncu."""
    parser = make_parser("cold times of ten kernels by five tools")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    arguments = parser.parse_args(argv)
    require_gpu()
    found = {}
    with tempfile.TemporaryDirectory(prefix="cuprof-agreement-") as folder:
        for tool in arguments.tools:
            answered = ask_tool(tool, Path(folder))
            if answered.fault:
                print(f"{tool}: no result: {answered.fault}")
            else:
                found[tool] = answered.found
    print("cold times in µs; -CUPTI and -ncu are cuprof's time less that tool's")
    rows = make_rows(found)
    return report("agreement", COLUMNS, rows, arguments.out, make_criteria(rows))


if __name__ == "__main__":
    sys.exit(start(main))
