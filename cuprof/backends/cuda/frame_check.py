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
    """Return what an execution does outside its frame; empty if nothing, or unknown.

    Args:
        execute: takes one cold reading.
        wait: waits for all work on the device, including work still to be launched.
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
    """Return a message on the work outside the frame between two marks among these records, or an empty string."""
    marks = sorted((each for each in records if each.name == MARK), key=lambda each: each.start_ns)
    if len(marks) < 2:  # records were lost: nothing can be said
        return ""
    if len(marks) > 2:
        return f"it launches a kernel named {MARK}, which is reserved: it marks the frame of an execution"
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
            return f"it works outside its frame: {each.name} {told} it, on stream {each.stream}; {MEND}"
    return ""
