"""Kinds of launch that hide work or results from whoever looks at one frame of one stream.

    python -m benchmarks.trick_table --out FOLDER

A row is right where the variant is timed in full, or refused with the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu import require_gpu
from benchmarks.table import make_parser, report, start
from benchmarks.trick_records import BASELINES, IN_FULL, OK, TRUE_SHARE, Shown
from benchmarks.trick_sweeps import NEVER_RAN, Bench
from benchmarks.tricks import to_us

COLUMNS = ("row", "variant", "true µs", "shown", "shown µs", "right", "message")
LONGEST_MESSAGE = 100


@dataclass(frozen=True)
class Case:
    """One row.

    Args:
        what: how the work is launched.
        variants: swept in one process, beside the baseline.
        may_be_true: being timed in full is right; otherwise only being refused is.
        like: what does the same work honestly; swept beside them.
    """

    what: str
    variants: tuple[str, ...]
    n: int = 2**24
    samples: int = 20
    may_be_true: bool = True
    like: str = BASELINES["cuda"]


CASES = (
    Case(
        "Triton on the default stream, n = 2^27",
        ("triton_default_stream",),
        n=2**27,
        like="triton_current_stream",
    ),
    Case(
        "beside a variant that leaves another stream current",
        ("stream_left_current", "cupy_elementwise", "torch_default_stream", "triton_default_stream"),
        n=2**20,
    ),
    Case("work on a stream that nobody waits for", ("own_stream",), may_be_true=False),
    Case("work handed to a thread", ("device_thread_handed",), may_be_true=False),
    Case("cuEventElapsedTime replaced: all beside it", ("event_times_replaced", "cupy_elementwise")),
    Case("computes while preparing, copies when timed", ("precomputed_on_device",), may_be_true=False),
    Case("returns early where the ends are there", ("ends_there_cuda",)),
    Case("wrong in one execution of fifty", ("one_in_fifty_cuda",), samples=250, may_be_true=False),
    Case(
        "an int where the kernel takes size_t; an argument too many",
        ("int_for_size_t", "one_argument_too_many"),
        may_be_true=False,
    ),
)


def make_rows(case: Case) -> list[dict[str, Any]]:
    """Sweep a case; return a row for each of its variants, and for the baseline beside them."""
    chosen = dict.fromkeys((BASELINES["cuda"], case.like, *case.variants))
    shown = Bench("cuda", case.n).sweep(tuple(chosen), samples=case.samples)
    true_ns = shown.get(case.like, NEVER_RAN).median_ns
    rows = []
    for name in (*case.variants, case.like):
        found = shown.get(name, NEVER_RAN)
        may_be_true = case.may_be_true or name == case.like
        rows.append(
            {
                "row": case.what,
                "variant": name,
                "true µs": to_us(true_ns),
                "shown": describe(found, true_ns),
                "shown µs": to_us(found.median_ns),
                "right": is_right(found, true_ns, may_be_true=may_be_true),
                "message": found.message[:LONGEST_MESSAGE],
            }
        )
    return rows


def describe(shown: Shown, true_ns: float | None) -> str:
    """Return a trial's state, or whether it was timed in full."""
    if shown.state != OK:
        return shown.state
    return IN_FULL if (shown.median_ns or 0.0) >= TRUE_SHARE["cuda"] * (true_ns or 0.0) > 0 else "false time"


def is_right(shown: Shown, true_ns: float | None, *, may_be_true: bool) -> bool:
    """Return whether a variant is timed in full where it may be, or refused with a reason."""
    ending = describe(shown, true_ns)
    return may_be_true if ending == IN_FULL else shown.state not in (OK, "planned", "skipped") and bool(shown.message)


def main(argv: Sequence[str] | None = None) -> int:
    """Sweep, print and keep; return 0 where each row is right."""
    arguments = make_parser((__doc__ or "").partition("\n")[0]).parse_args(argv)
    require_gpu()
    rows = [row for case in CASES for row in make_rows(case)]
    wrong = [row for row in rows if not row["right"]]
    criterion = f"{len(rows) - len(wrong)} of {len(rows)} are timed in full or refused with the reason"
    return report("trick_table", COLUMNS, rows, arguments.out, {criterion: not wrong})


if __name__ == "__main__":
    sys.exit(start(main))
