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
    if override:
        path = Path(override).expanduser()
        path = path / "ncu" if path.is_dir() else path
        if not _is_program(path):
            raise ProfilerError(f"ncu.path={override} is not a program that can be run; {_INSTALL}")
        return NcuExecutable(path)
    for path in list_candidates(environment, root):
        if _is_program(path):
            return NcuExecutable(path)
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


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


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
