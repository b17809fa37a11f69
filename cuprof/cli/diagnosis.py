"""The examinations behind `cuprof doctor`, each from facts to a diagnosis; nothing is made or changed."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cuprof.backends.cpu.processor import cpu_name
from cuprof.backends.cuda.presence import Driver, find_driver
from cuprof.backends.opencl.presence import OPENCL_VENDORS, has_nvidia_icd, list_platforms
from cuprof.builds.nvrtc import nvrtc_version
from cuprof.core.errors import CuprofError, EmptyStoreError
from cuprof.core.processes import count_cores
from cuprof.core.project import Project, checkout, find_existing
from cuprof.engine.device_lock import list_folders
from cuprof.families.toolchain import COMPILERS, REMEDIES, find_headers, get_compiler
from cuprof.ncu import TITLE
from cuprof.ncu.executable import get_executable

PROFILING_PARAMETERS = Path("/proc/driver/nvidia/params")
CUPY = {"cuda12": "cupy-cuda12x", "cuda13": "cupy-cuda13x"}
OPEN_COUNTERS = (
    "run ncu-collect as root, or let every user profile: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' "
    "| sudo tee /etc/modprobe.d/nvidia-profiling.conf, then restart"
)
PIP = f"{sys.executable} -m pip"
EXTRAS = {
    "pyarrow": ("parquet", "query --format parquet"),
    "psycopg": ("postgres", "a PostgreSQL store"),
    "joblib": ("joblib", "launch=joblib"),
    "ray": ("ray", "launch=ray"),
}
"""Distribution → (extra, what it is for)."""


class Health(StrEnum):
    """Say how much a diagnosis matters."""

    GOOD = "good"
    OPTIONAL = "optional"
    WARNING = "warning"
    MISSING = "missing"


GOOD, OPTIONAL, WARNING, MISSING = Health


@dataclass(frozen=True)
class Diagnosis:
    """One thing looked at: what was found, and the command that mends it."""

    what: str
    health: Health
    detail: str
    remedy: str = ""


def examine(project: Project, store: str = "") -> Iterator[Diagnosis]:
    """Yield every diagnosis about this machine and project; `store` names another database than the project's."""
    installed: dict[str, str] = {
        canonicalize_name(each.metadata["Name"]): each.version for each in importlib.metadata.distributions()
    }
    driver = find_driver()
    extra = (driver.extra if driver else "") or "cuda13"  # with CUDA's packages: what the driver takes, or the newest
    yield Diagnosis("Python", GOOD, ".".join(map(str, sys.version_info[:3])))
    requirements = importlib.metadata.requires("cuprof") or () if "cuprof" in installed else ()
    yield from examine_dependencies(requirements, installed)
    yield Diagnosis("CPU", GOOD, f"{cpu_name()}, {count_cores()} cores usable")
    yield examine_driver(driver)
    yield examine_cupy(driver, installed)
    yield _examine("NVRTC", nvrtc_version, driver, install_command(extra))
    included = "sources that include <cuda_fp16.h> and the like"
    yield _optional("CUDA headers", find_headers().version, included, install_command(extra))
    for name in COMPILERS:
        found = get_compiler(name)
        detail = f"{found.version} ({found.path})" if found.path else ""
        yield _optional(name, detail, f'variants with compiler="{name}"', REMEDIES[name])
    yield _examine(TITLE, lambda: f"{(ncu := get_executable()).version} at {ncu.path}", driver)
    yield examine_counters(driver, PROFILING_PARAMETERS)
    yield examine_opencl(driver, list_platforms(), "pyopencl" in installed, has_nvidia_icd())
    for name, (needed, purpose) in EXTRAS.items():
        yield _optional(name, installed.get(name, ""), purpose, install_command(needed))
    yield _optional("Slurm", shutil.which("sbatch") or "", "launch=slurm", "")
    yield examine_database(store or project.database_url)
    yield examine_locks(list_folders())


def _optional(what: str, found: str, purpose: str, remedy: str) -> Diagnosis:
    return Diagnosis(what, GOOD, found) if found else Diagnosis(what, OPTIONAL, f"only needed for {purpose}", remedy)


def install_command(extra: str) -> str:
    """Return the command that installs one of cuprof's extras."""
    root = checkout()
    return f"{PIP} install " + (f"-e '{root}[{extra}]'" if root else f"'cuprof[{extra}]'")


def examine_dependencies(requirements: Sequence[str], installed: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Judge every requirement ("numpy>=2.0") that no extra adds; `installed` is normalised name → version."""
    for requirement in (Requirement(text) for text in requirements if "extra ==" not in text):
        version = installed.get(canonicalize_name(requirement.name), "")
        if requirement.specifier.contains(version or "0", prereleases=True):
            yield Diagnosis(requirement.name, GOOD, version)
        else:
            detail = f"{version}, but {requirement.specifier} is needed" if version else "not installed"
            yield Diagnosis(requirement.name, MISSING, detail, f"{PIP} install --upgrade '{requirement}'")


def examine_driver(driver: Driver | None) -> Diagnosis:
    """Judge the NVIDIA driver."""
    if driver is None:
        return Diagnosis("NVIDIA driver", OPTIONAL, "none; CUDA variants are skipped, CPU variants run")
    gpus = ", ".join(gpu.name for gpu in driver.gpus) or "no GPU visible"
    detail = f"{driver.version}, CUDA {driver.cuda[0]}.{driver.cuda[1]}; {gpus}"
    judged = (GOOD, detail) if driver.extra else (WARNING, detail, "install a driver that supports CUDA 12 or newer")
    return Diagnosis("NVIDIA driver", *judged)


def examine_cupy(driver: Driver | None, installed: Mapping[str, str]) -> Diagnosis:
    """Judge whether CuPy is there and fits the driver."""
    found = {extra: installed[name] for extra, name in CUPY.items() if name in installed}
    described = " and ".join(f"{CUPY[extra]} {version}" for extra, version in found.items())
    wanted = driver.extra if driver else ""
    if len(found) > 1:
        keep = wanted or "cuda13"
        other = next(CUPY[extra] for extra in found if extra != keep)
        remedy = f"{PIP} uninstall -y {other} && {install_command(keep)} --force-reinstall --no-deps"
        return Diagnosis("CuPy", WARNING, f"{described} overwrite each other", remedy)
    if driver is None or not wanted:
        return Diagnosis("CuPy", GOOD if found else OPTIONAL, described or "not installed; no use without a GPU")
    if not found:
        return Diagnosis("CuPy", WARNING, "not installed; CUDA variants are skipped", install_command(wanted))
    if (extra := next(iter(found))) > wanted:
        detail = f"{described}, but the driver supports CUDA {driver.cuda[0]}.{driver.cuda[1]} at most"
        return Diagnosis("CuPy", WARNING, detail, f"{PIP} uninstall -y {CUPY[extra]} && {install_command(wanted)}")
    return Diagnosis("CuPy", GOOD, described)


def examine_counters(driver: Driver | None, parameters: Path) -> Diagnosis:
    """Judge whether hardware counters are open to this user."""
    if driver is None:
        return Diagnosis("GPU counters", OPTIONAL, "no NVIDIA driver")
    try:
        if "RmProfilingAdminOnly: 1" in parameters.read_text() and os.geteuid() != 0:
            return Diagnosis("GPU counters", WARNING, "for administrators only", OPEN_COUNTERS)
    except OSError:
        return Diagnosis("GPU counters", OPTIONAL, f"{parameters} cannot be read; ncu itself will say")
    return Diagnosis("GPU counters", GOOD, "open to this user")


def examine_opencl(
    driver: Driver | None, platforms: Sequence[tuple[str, Sequence[str]]], has_pyopencl: bool, nvidia_icd: bool
) -> Diagnosis:
    """Judge PyOpenCL and the platforms it sees, each with its devices' names."""
    if not has_pyopencl:
        return Diagnosis("OpenCL", OPTIONAL, "PyOpenCL is not installed", install_command("opencl"))
    described = "; ".join(f"{name}: {', '.join(devices) or 'no device'}" for name, devices in platforms)
    if driver is not None and not nvidia_icd:
        remedy = f"sudo mkdir -p {OPENCL_VENDORS} && echo libnvidia-opencl.so.1 | sudo tee {OPENCL_VENDORS}/nvidia.icd"
        return Diagnosis("OpenCL", WARNING, f"{described or 'no platform'}; NVIDIA's is not registered", remedy)
    if platforms:
        return Diagnosis("OpenCL", GOOD, described)
    return Diagnosis("OpenCL", OPTIONAL, "no platform", "sudo apt install pocl-opencl-icd (OpenCL on the CPU)")


def _examine(what: str, find: Callable[[], str], driver: Driver | None, remedy: str = "") -> Diagnosis:
    """Judge software that only GPUs need, by what `find` returns or raises."""
    try:
        return Diagnosis(what, GOOD, find())
    except CuprofError as error:
        detail, _, said = str(error).partition("; ")
        return Diagnosis(what, WARNING if driver else OPTIONAL, detail, remedy or (said if driver else ""))


def examine_database(url: str) -> Diagnosis:
    """Judge whether rows can be written, and whether they are safe there."""
    from cuprof.store.connection import database_file, describe_network, parse_url, show
    from cuprof.store.store import Store

    place = ""
    try:
        parsed = parse_url(url)
        file, place = database_file(parsed), show(parsed)
        if file is not None:
            folder = find_existing(file.parent)
            target = file if file.exists() else folder
            if not os.access(target, os.W_OK) or not os.access(folder, os.W_OK):
                remedy = f"chmod u+w {folder}, or name another database with --store sqlite:////PATH"
                return Diagnosis("database", MISSING, f"{target} cannot be written", remedy)
            if risk := describe_network(file):
                detail, _, remedy = risk.partition("; ")
                return Diagnosis("database", WARNING, detail, remedy)
            if not file.exists():
                return Diagnosis("database", GOOD, f"{place} (made by the first sweep)")
        with Store.open(url, create=False, read_only=True):
            backup = "cuprof backup FILE copies it" if file else "pg_dump copies it"
            return Diagnosis("database", GOOD, f"{place} ({backup})")
    except EmptyStoreError:
        return Diagnosis("database", GOOD, f"{place} (its tables are made by the first sweep)")
    except CuprofError as error:
        return Diagnosis("database", MISSING, str(error), "see the message")


def examine_locks(folders: Sequence[Path]) -> Diagnosis:
    """Judge whether cuprof's processes can take turns on a device; the last folder of locks is for all users."""
    usable = [str(folder) for folder in folders if os.access(find_existing(folder), os.W_OK | os.X_OK)]
    shared, what = folders[-1], "turns on devices"
    mode = shared.stat().st_mode & 0o7777 if shared.exists() else 0o1777
    mend = f"sudo chmod 1777 {shared}"
    if not usable:
        detail = f"no lock can be made in {' or '.join(map(str, folders))}: sweeps side by side disturb each other"
        mend += ", or set CUPROF_LOCKS to a folder that all who share the devices can write"
        return Diagnosis(what, WARNING, detail, mend)
    if mode != 0o1777:
        detail = f"{shared} has mode {mode:o}: other users cannot take turns, or can undo them"
        return Diagnosis(what, WARNING, detail, mend)
    return Diagnosis(what, GOOD, f"locks in {' and '.join(usable)}")
