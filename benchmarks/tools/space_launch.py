"""The 48 configurations, each launched once: what ncu profiles when nobody helps it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.tools.answer import answer


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Launch all configurations, or the one whose number is given."""
    from benchmarks.space import BUFFERS, CONFIGURATIONS, SOURCE
    from benchmarks.tools.device import Device
    from benchmarks.tools.space_bench import make_launches

    device = Device()
    buffers = device.allocate(BUFFERS)
    if arguments.only is None:
        launches = make_launches(device, buffers)
    else:
        one = CONFIGURATIONS[arguments.only]
        launches = [device.bind(device.load(SOURCE, one.defines), one.launch, buffers)]
    device.run_once(launches)
    return {"launches": len(launches)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", type=int)
    sys.exit(answer(work, parser))
