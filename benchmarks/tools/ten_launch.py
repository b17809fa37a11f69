"""The ten kernels, each launched a few times: what ncu profiles."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.ten_kernels import BUFFERS, LAUNCHES, SOURCE
from benchmarks.tools.answer import answer

EXECUTIONS = 25
"""ncu's readings of one kernel lie up to 4 % apart at steady clocks, so that the median of a few says little."""


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Launch; there is nothing to return."""
    from benchmarks.tools.device import Device

    device = Device()
    module, buffers = device.load(SOURCE), device.allocate(BUFFERS)
    for launch in LAUNCHES:
        packed = device.bind(module, launch, buffers)
        device.run_once([packed] * EXECUTIONS)
    return {}


if __name__ == "__main__":
    sys.exit(answer(work))
