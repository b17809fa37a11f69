"""Whether all that an execution does on the device lies within its frame, by CUPTI's records of one execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from cuprof.backends.cuda.cupti_records import Record, get_records

MARK = "cuprof_mark"
OWN = Counter({MARK: 2, "cuprof_hold": 1, "cuprof_refill": 1, "cuprof_read_through": 1})
"""The apparatus's own launches for a cold reading that is not compared."""
SLACK_NS = 2_000
"""The slack allowed between time stamps of two consecutive kernels."""
MEND = "launch on the current stream (the default one), or make it wait for your own (event.record, wait_event)"


def find_outside(execute: Callable[[], object], wait: Callable[[], object]) -> str:
    """Return what an execution does outside of its frame; empty where that is nothing, or cannot be told.

    Args:
        execute: takes one cold reading.
        wait: waits for everything on the device, and for what may still be put there.
    """
    try:
        records = get_records()
    except ImportError:
        return ""
    wait()
    with records.collecting(records.everything):
        records.clear()
        execute()
        wait()
        return describe_outside(records.read())


def describe_outside(records: Sequence[Record]) -> str:
    """Return what lies outside of the frame that two marks make among these records, as a message, or nothing."""
    marks = sorted((each for each in records if each.name == MARK), key=lambda each: each.start_ns)
    if len(marks) < 2:  # records were lost: nothing can be said
        return ""
    if len(marks) > 2:
        return f"it launches a kernel of the name {MARK}, by which the frame of an execution is told"
    began_ns, ended_ns = marks[0].end_ns - SLACK_NS, marks[-1].start_ns + SLACK_NS
    own = Counter(OWN)
    for each in sorted(records, key=lambda each: each.start_ns):
        told = ""
        if own[each.name]:
            own[each.name] -= 1
        elif each.start_ns < began_ns:
            told = f"begins {(marks[0].end_ns - each.start_ns) / 1e3:.1f} µs before"
        elif each.end_ns > ended_ns:
            told = f"ends {(each.end_ns - marks[-1].start_ns) / 1e3:.1f} µs after"
        if told:
            return f"it works outside of its frame: {each.name} {told} it, on stream {each.stream}; {MEND}"
    return ""
