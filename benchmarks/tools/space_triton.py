"""The 48 configurations by Triton's do_bench at its defaults."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from benchmarks.space import CONFIGURATIONS
from benchmarks.tools.answer import answer


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return medians in nanoseconds in the order of the configurations, and the time spent measuring."""
    import torch
    from triton.testing import do_bench

    from benchmarks.tools.device import Device, on_stream
    from benchmarks.tools.space_bench import make_launches

    device = Device()
    launches = make_launches(device)
    stream = torch.cuda.current_stream().cuda_stream
    started = time.perf_counter()
    quartiles = [do_bench(on_stream(launch, stream), quantiles=[0.25, 0.5, 0.75]) for launch in launches]
    measuring_s = time.perf_counter() - started
    return {
        "indices": list(range(len(CONFIGURATIONS))),
        "median_ns": [median * 1e6 for _, median, _ in quartiles],
        "spread": [(high - low) / median for low, median, high in quartiles],
        "samples": [None for _ in quartiles],
        "measuring_s": measuring_s,
    }


if __name__ == "__main__":
    sys.exit(answer(work))
