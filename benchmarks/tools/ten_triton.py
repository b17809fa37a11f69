"""The ten kernels by Triton's do_bench."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.ten_kernels import BUFFERS, LAUNCHES, SOURCE
from benchmarks.tools.answer import answer


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return do_bench's median in nanoseconds, by kernel."""
    import torch
    from triton.testing import do_bench

    from benchmarks.tools.device import Device, on_stream

    device = Device()
    module, buffers = device.load(SOURCE), device.allocate(BUFFERS)
    stream = torch.cuda.current_stream().cuda_stream
    found = {}
    for launch in LAUNCHES:
        packed = device.bind(module, launch, buffers)
        found[launch.kernel] = do_bench(on_stream(packed, stream), return_mode="median") * 1e6
    return {"median_ns": found}


if __name__ == "__main__":
    sys.exit(answer(work))
