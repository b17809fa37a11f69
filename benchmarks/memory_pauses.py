"""How often, and for how long, a GPU's whole device memory stops answering.

    python -m benchmarks.memory_pauses --out FOLDER

One block a multiprocessor reads through a buffer far larger than the L2 cache and notes the device's nanosecond counter
after every piece. While memory answers, some block ends a piece every few nanoseconds; a time in which none does is a
pause of the memory itself. Kernels that read device memory are a pause longer in some executions than in others,
however still the machine is; docs/measurement.md says what that means for their medians.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import make_parser, report, start

SOURCE = Path(__file__).with_suffix(".cu")
BUFFER_BYTES = 4 << 30
THREADS, READS, PIECES = 1024, 4, 4000
PIECE_BYTES = THREADS * READS * 16
SILENCE = 20
"""A gap this many times the mean one is a pause; gaps of a steady stream are exponential, so chance makes none."""
LEAST_NS = 250.0
MERGE_NS = 5_000.0
"""Silences that begin within this time of one another are one pause, which a few late pieces interrupt."""
LEAST_STEPS = 4
"""A shorter gap than this many steps of the device's counter may be the counter's."""
COLUMNS = ("launch", "ms", "GB/s", "pauses", "every µs", "from µs", "to µs", "longest µs", "median µs")


def find_pauses(ended_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where pauses begin and how long they are, in nanoseconds.

    Args:
        ended_ns: when pieces ended by the device's counter, of all blocks, in any order, as integers; the first and
            last hundredth, in which not every block reads, are left out.
    """
    # The counter is near 2e18, where floats are 256 apart: they can hold the differences alone.
    ordered = (np.sort(ended_ns, axis=None) - ended_ns.min()).astype(np.float64)
    edge = ordered.size // 100
    steady = ordered[edge : ordered.size - edge]
    gaps = np.diff(steady)
    step = float(gaps[gaps > 0].min(initial=np.inf))
    silent = gaps > max(LEAST_NS, LEAST_STEPS * step, SILENCE * float(gaps.mean()))
    begun, ended = steady[:-1][silent], steady[1:][silent]
    first = np.diff(begun, prepend=-np.inf) > MERGE_NS
    return begun[first], ended[np.append(first[1:], True)[: ended.size]] - begun[first]


def make_row(launch: int, ended_ns: np.ndarray) -> dict[str, Any]:
    """Return the table's row for one launch: the pauses and the time between them (median, and 10 to 90 %)."""
    begun, lengths = find_pauses(ended_ns)
    span_ns = float(ended_ns.max() - ended_ns.min())
    row = {
        "launch": launch,
        "ms": span_ns * 1e-6,
        "GB/s": ended_ns.size * PIECE_BYTES / span_ns,
        "pauses": int(begun.size),
    }
    if begun.size < 3:
        return row
    between = np.diff(begun) * 1e-3
    low, middle, high = np.quantile(between, (0.1, 0.5, 0.9))
    return row | {
        "every µs": float(middle),
        "from µs": float(low),
        "to µs": float(high),
        "longest µs": float(lengths.max()) * 1e-3,
        "median µs": float(np.median(lengths)) * 1e-3,
    }


def measure(launches: int) -> list[dict[str, Any]]:
    """Return a row for each launch."""
    from benchmarks.tools.device import Device
    from cuprof.families import Launch

    device = Device()
    cupy = device.backend.device.cupy
    blocks = int(cupy.cuda.Device().attributes["MultiProcessorCount"])
    buffers = device.allocate({"data": BUFFER_BYTES, "ended": 8 * blocks * PIECES})
    module = device.load(SOURCE, {"READS": READS})
    arguments = ("data", np.uint64(BUFFER_BYTES // 16), np.uint32(PIECES), "ended")
    kernel = device.bind(module, Launch("read_in_pieces", (blocks,), (THREADS,), arguments), buffers)
    rows = []
    for launch in range(launches + 1):
        device.run_once([kernel])
        if launch:  # the first loads the kernel and raises the clocks
            rows.append(make_row(launch, buffers["ended"].view(cupy.uint64).get()))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; nothing is asked of the figures."""
    parser = make_parser("pauses of a GPU's device memory")
    parser.add_argument("--launches", type=int, default=5, help="rows of the table (default: %(default)s)")
    arguments = parser.parse_args(argv)
    return report("memory_pauses", COLUMNS, measure(arguments.launches), arguments.out, {})


if __name__ == "__main__":
    sys.exit(start(main))
