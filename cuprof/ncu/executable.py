"""Nsight Compute's command line program: where it is, its version, and what its errors on the console mean."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cuprof.core.errors import ProfilerError
from cuprof.ncu.metrics import read_table

OLDEST = (2022, 2)
"""First release whose --nvtx-include takes regular expressions for push/pop ranges."""

_INSTALL = "install Nsight Compute (it comes with the CUDA toolkit) or name the program with ncu.path=/path/to/ncu"
_VERSION = re.compile(r"Version\s+(\d+)\.(\d+)\.(\d+)")


class NcuExecutable:
    """An ncu program and its release.

    Args:
        path: the program. Its release is read in a thread from now on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        thread = ThreadPoolExecutor(1, thread_name_prefix="ncu-version")
        self._answer = thread.submit(_read_version, path)
        thread.shutdown(wait=False)

    @property
    def version(self) -> str:
        """Return the release as NVIDIA writes it ("2025.3.1"), waiting for it if necessary.

        Raises:
            ProfilerError: the program does not run, or is older than `OLDEST`.
        """
        return self._answer.result()


def get_executable(
    override: str = "", environment: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> NcuExecutable:
    """Find ncu, and start to read its version; `NcuExecutable.version` waits for it.

    Args:
        override: `ncu.path`; when given, ncu is not looked for elsewhere.
        environment: PATH, CUDA_HOME and CUDA_PATH are read from it.
        root: file system root of the usual installation folders.

    Raises:
        ProfilerError: there is none.
    """
    named = Path(override).expanduser()
    places = [named / "ncu" if named.is_dir() else named] if override else list_candidates(environment, root)
    for path in places:
        if path.is_file() and os.access(path, os.X_OK):
            return NcuExecutable(path)
    if override:
        raise ProfilerError(f"ncu.path={override} is not a program that can be run; {_INSTALL}")
    raise ProfilerError(
        "ncu, the command line program of Nsight Compute, was not found on PATH, in CUDA_HOME or CUDA_PATH, in "
        f"/usr/local/cuda*/bin or in /opt/nvidia/nsight-compute; {_INSTALL}"
    )


def list_metric_names(executable: NcuExecutable) -> list[str]:
    """Return the base names (without .sum, …) of the metrics that the devices here have; empty where ncu fails."""
    try:
        output = _ask(executable.path, "--query-metrics").stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = re.findall(r"^([A-Za-z][\w.]*__\w+)\s+(?:Counter|Ratio|Throughput)\b", output, re.MULTILINE)
    return list(dict.fromkeys(rows))


def list_candidates(environment: Mapping[str, str], root: Path = Path("/")) -> Iterator[Path]:
    """Yield the places of ncu in order: PATH, the toolkit named by the environment, the usual folders."""
    found = shutil.which("ncu", path=environment.get("PATH", ""))
    if found:
        yield Path(found)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environment.get(name):
            yield Path(environment[name]) / "bin" / "ncu"
    yield root / "usr/local/cuda/bin/ncu"
    yield from (folder / "bin/ncu" for folder in _newest_first(root / "usr/local", "cuda-*"))
    yield from (folder / "ncu" for folder in _newest_first(root / "opt/nvidia/nsight-compute", "*"))


def _newest_first(parent: Path, pattern: str) -> list[Path]:
    folders = [folder for folder in parent.glob(pattern) if folder.is_dir() and re.search(r"\d", folder.name)]
    return sorted(folders, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.name)], reverse=True)


def _ask(path: Path, option: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(path), option], capture_output=True, text=True, errors="replace", timeout=60, check=False
    )


def _read_version(path: Path) -> str:
    try:
        run = _ask(path, "--version")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfilerError(f"{path} --version could not be run ({error}); {_INSTALL}") from error
    match = _VERSION.search(run.stdout)
    if run.returncode != 0 or match is None:
        lines = (run.stderr or run.stdout).strip().splitlines()
        raise ProfilerError(
            f"{path} --version ended with exit code {run.returncode} and named no version"
            f"{f' ({lines[-1]})' if lines else ''}; {_INSTALL}"
        )
    release = tuple(map(int, match.groups()))
    version = ".".join(map(str, release))
    if release < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ProfilerError(f"{path} is Nsight Compute {version}, and cuprof needs {oldest} or newer; {_INSTALL}")
    return version


_ERROR = re.compile(r"^==ERROR==\s*(.*?(?::[ \t]*\n\s*[^=\s].*)?)$", re.MULTILINE)
"""A line that ends in a colon continues on the next one."""
_UNKNOWN_METRIC = re.compile(r"Failed to find metric\s+(\S+)")
_REGEX_METRIC = re.compile(r"^regex:\^?(.*?)(?:\\?\.\(.*\))?\$?$")


def list_messages(output: str) -> list[str]:
    """Return the texts of ncu's own error lines."""
    return [" ".join(text.split()) for text in _ERROR.findall(output)]


def find_explanation(output: str) -> str | None:
    """Return what went wrong and what to do, or None where the output shows no known failure."""
    return next((row["explanation"] for row in _list_failures(output)), None)


def is_report_lost(output: str) -> bool:
    """Return whether ncu says that it could not save its report."""
    return any(row["is_report_lost"] for row in _list_failures(output))


def _list_failures(output: str) -> Iterator[Mapping[str, str]]:
    """Yield the rows of failures.csv whose patterns are found in ncu's own error lines."""
    errors = "\n".join(list_messages(output))  # never what the profiled program itself prints
    return (row for row in read_table("failures.csv") if re.search(row["pattern"], errors))


def list_unknown_metrics(output: str) -> list[str]:
    """Return the metrics that ncu names as unknown, each once, as they were given where that is known."""
    names = (_UNKNOWN_METRIC.findall(text) for text in list_messages(output))
    return list(dict.fromkeys(_plain(name) for found in names for name in found))


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
