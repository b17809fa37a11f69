"""Errors on Nsight Compute's console, and what a person can do about them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_ERROR = re.compile(r"^==ERROR==\s*(.*?(?::[ \t]*\n\s*[^=\s].*)?)$", re.MULTILINE)
"""A line that ends in a colon continues on the next one."""
_UNKNOWN_METRIC = re.compile(r"Failed to find metric\s+(\S+)")
_REGEX_METRIC = re.compile(r"^regex:\^?(.*?)(?:\\?\.\(.*\))?\$?$")

_REPORT_LOST = r"Failed to save the report|Unable to write to file|No space left on device"
_EXPLANATIONS: tuple[tuple[str, str], ...] = (
    (
        r"ERR_NVGPUCTRPERM|does not have permission to access NVIDIA GPU Performance Counters",
        "the driver keeps hardware counters from this user (ERR_NVGPUCTRPERM); either run this command as root or with "
        "CAP_SYS_ADMIN (containers: --cap-add=SYS_ADMIN), or let every user read counters: put `options nvidia "
        "NVreg_RestrictProfilingToAdminUsers=0` into a file in /etc/modprobe.d and reload the driver",
    ),
    (
        r"[Aa]nother (?:tool|profiler|instance)|already (?:attached|in use|being profiled)|other tools|"
        r"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS|[Rr]esource is already in use|"
        r"driver resource was unavailable",
        "another profiler holds the device's counters (a second ncu, Nsight Systems, DCGM or CUPTI in this process); "
        "stop it and run the same command again (DCGM: `dcgmi profile --pause`)",
    ),
    (
        r"Profiling is not supported on device",
        "this Nsight Compute does not know this GPU; install a release that does and name it with ncu.path=",
    ),
    (
        r"LibraryNotLoaded|Failed to initialize the profiler",
        "Nsight Compute could not load the driver's profiling interface; the driver and Nsight Compute do not fit "
        "together, or this kind of machine (gVisor, WSL, vGPU) gives no counters",
    ),
    (
        r"unrecogni[sz]ed option|did not match any (?:section|set)|Failed to parse options",
        "Nsight Compute refused its arguments; see the sets and sections it has with `ncu --list-sets` and "
        "`ncu --list-sections`",
    ),
    (
        _REPORT_LOST,
        "Nsight Compute could not save its report: the disk that holds the temporary folder is full, or it cannot be "
        "written; make room or point TMPDIR elsewhere, and run the same command again",
    ),
)


def list_messages(output: str) -> list[str]:
    """Return the texts of ncu's own error lines."""
    return [" ".join(text.split()) for text in _ERROR.findall(output)]


def find_explanation(output: str) -> str | None:
    """Return what went wrong and what to do, or None where the output shows no known failure."""
    errors = "\n".join(list_messages(output))  # never what the profiled program itself prints
    return next((explanation for pattern, explanation in _EXPLANATIONS if re.search(pattern, errors)), None)


def is_report_lost(output: str) -> bool:
    """Return whether ncu says that it could not save its report."""
    return any(re.search(_REPORT_LOST, text) for text in list_messages(output))


def list_unknown_metrics(output: str) -> list[str]:
    """Return the metrics that ncu names as unknown, each once, as they were given where that is known."""
    names = (_UNKNOWN_METRIC.findall(text) for text in list_messages(output))
    return list(dict.fromkeys(_plain(name) for found in names for name in found))


def list_queried_metrics(output: str) -> list[str]:
    """Return the base names (without .sum, .avg, …) that `ncu --query-metrics` prints."""
    rows = re.findall(r"^([A-Za-z][\w.]*__\w+)\s+(?:Counter|Ratio|Throughput)\b", output, re.MULTILINE)
    return list(dict.fromkeys(rows))


def missing_metric_reason(name: str, known: Iterable[str]) -> str:
    """Return why a metric was left out, with the names nearest to it.

    Args:
        known: names that the chip has, with or without a suffix; a suggestion without one gets the requested suffix.
    """
    base, dot, suffix = name.partition(".")
    bases = {other.partition(".")[0] for other in known}
    if base in bases:
        return f"metric {name} was not collected, though this chip has {base}; see its suffixes in cuprof list metrics"
    near = difflib.get_close_matches(base, bases, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(other + dot + suffix for other in near)}?" if near else "see cuprof list metrics"
    return f"metric {name} does not exist on this chip; {hint}"


def _plain(name: str) -> str:
    match = _REGEX_METRIC.match(name)
    return match.group(1).replace("\\", "") if match else name.rstrip(".,;")
