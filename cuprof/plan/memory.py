"""How much device memory trials need, before anything is allocated."""

from __future__ import annotations

from cuprof.backends.contract import SCRATCH_ALIGNMENT
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.families.model import Family
from cuprof.families.program import Program


def arena_bytes(program: Program | None) -> int:
    """Return the bytes of an arena for a program's scratch buffers, aligned as sessions align them."""
    arrays = program.scratch.values() if program is not None else ()
    return sum(array.nbytes + SCRATCH_ALIGNMENT for array in arrays)


def explain_excess(family: Family, problem: Point, needed: int, device: DeviceFacts) -> Unavailable | None:
    """Return why a trial of this size cannot run, or None: it needs more than all of a device's memory (0: unknown)."""
    if not device.memory_bytes or needed <= device.memory_bytes:
        return None
    sizes = [axis.name for axis in family.axes if axis.is_integer and not axis.choices]
    return Unavailable(
        f"{problem.label} needs {format_bytes(needed)} of memory for inputs, outputs and scratch, "
        f"and {device.name} has {format_bytes(device.memory_bytes)}",
        f"choose a smaller {' or '.join(sizes) or 'problem'}",
    )


def format_bytes(count: int) -> str:
    """Return bytes as text with a decimal prefix: 4294967296 as "4.29 GB"."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.0f} {units[0]}" if units[0] == "B" or value >= 1000 else f"{value:.3g} {units[0]}"
