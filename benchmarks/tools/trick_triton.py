"""One variant of the family `tricks` by Triton's do_bench at its defaults, its result checked once before."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.tools.answer import answer
from benchmarks.tools.trick_arrays import Case, make_parser


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return whether the result was right, and the median in nanoseconds where it was."""
    from triton.testing import do_bench

    case = Case.of(arguments)
    run, fetch = case.put_on_device()
    run()
    if not case.is_right(fetch()):
        return {"right": False}
    return {"right": True, "median_ns": do_bench(run, return_mode="median") * 1e6}


if __name__ == "__main__":
    sys.exit(answer(work, make_parser()))
