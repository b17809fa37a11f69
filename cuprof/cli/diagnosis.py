"""The examinations behind `cuprof doctor`, each a function from facts to a diagnosis."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cuprof.backends.cpu.processor import cpu_name
from cuprof.backends.cuda.presence import Driver, find_driver
from cuprof.backends.opencl.presence import OPENCL_VENDORS, Platform, has_nvidia_icd, list_platforms
from cuprof.cli.host_diagnosis import Diagnosis, Health, examine_host
from cuprof.core.errors import CuprofError
from cuprof.core.processes import count_cores
from cuprof.core.project import Project, checkout
from cuprof.families.toolchain import COMPILERS, REMEDIES, find_headers, get_compiler
from cuprof.ncu import TITLE
from cuprof.ncu.executable import get_executable

PROFILING_PARAMETERS = Path("/proc/driver/nvidia/params")
CUPY = {"cuda12": "cupy-cuda12x", "cuda13": "cupy-cuda13x"}
OPEN_COUNTERS = (
    "run ncu-collect as root, or let every user profile: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' "
    "| sudo tee /etc/modprobe.d/nvidia-profiling.conf, then restart"
)
_PIP = f"{sys.executable} -m pip"
OPTIONAL = {
    "pyarrow": ("parquet", "query --format parquet"),
    "psycopg": ("postgres", "a PostgreSQL store"),
    "joblib": ("joblib", "launch=joblib"),
    "ray": ("ray", "launch=ray"),
}
"""Distribution → (extra, what it is for)."""


def examine(project: Project, store: str = "") -> Iterator[Diagnosis]:
    """Yield every diagnosis about this machine and project; `store` names another database than the project's."""
    installed = _installed_versions()
    driver = find_driver()
    yield Diagnosis("Python", Health.GOOD, ".".join(map(str, sys.version_info[:3])))
    yield from examine_dependencies(_requirements(), installed)
    yield Diagnosis("CPU", Health.GOOD, f"{cpu_name()}, {count_cores()} cores usable")
    yield examine_driver(driver)
    yield examine_cupy(driver, installed)
    yield _examine_nvrtc(driver)
    yield examine_headers(driver, find_headers().version)
    yield from map(examine_compiler, COMPILERS)
    yield _examine_profiler(driver)
    yield examine_counters(driver, PROFILING_PARAMETERS)
    yield examine_opencl(driver, list_platforms(), "pyopencl" in installed, has_nvidia_icd())
    for name, (extra, purpose) in OPTIONAL.items():
        if name in installed:
            yield Diagnosis(name, Health.GOOD, installed[name])
        else:
            yield Diagnosis(name, Health.OPTIONAL, f"only needed for {purpose}", install_command(extra))
    sbatch = shutil.which("sbatch")
    yield Diagnosis("Slurm", Health.GOOD if sbatch else Health.OPTIONAL, sbatch or "only needed for launch=slurm")
    yield from examine_host(project, store)


def examine_compiler(name: str) -> Diagnosis:
    """Say whether a compiler that variants may name is there."""
    compiler = get_compiler(name)
    if compiler.path is not None:
        return Diagnosis(name, Health.GOOD, f"{compiler.version} ({compiler.path})")
    return Diagnosis(name, Health.OPTIONAL, f'only needed for variants with compiler="{name}"', REMEDIES[name])


def install_command(extra: str) -> str:
    """Return the command that installs one of cuprof's extras."""
    root = checkout()
    target = f"-e '{root}[{extra}]'" if root else f"'cuprof[{extra}]'"
    return f"{_PIP} install {target}"


def examine_dependencies(requirements: Sequence[str], installed: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Judge every requirement by the version that is installed.

    Args:
        requirements: as in a package's metadata ("numpy>=2.0").
        installed: normalised distribution name → version.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    for requirement in map(Requirement, requirements):
        version = installed.get(canonicalize_name(requirement.name), "")
        health, detail, remedy = Health.GOOD, version, ""
        if not requirement.specifier.contains(version or "0", prereleases=True):
            health, remedy = Health.MISSING, f"{_PIP} install --upgrade '{requirement}'"
            detail = f"{version}, but {requirement.specifier} is needed" if version else "not installed"
        yield Diagnosis(requirement.name, health, detail, remedy)


def examine_driver(driver: Driver | None) -> Diagnosis:
    """Judge the NVIDIA driver."""
    if driver is None:
        return Diagnosis("NVIDIA driver", Health.OPTIONAL, "none; CUDA variants are skipped, CPU variants run")
    gpus = ", ".join(gpu.name for gpu in driver.gpus) or "no GPU visible"
    detail = f"{driver.version}, CUDA {driver.cuda[0]}.{driver.cuda[1]}; {gpus}"
    if driver.extra:
        return Diagnosis("NVIDIA driver", Health.GOOD, detail)
    return Diagnosis("NVIDIA driver", Health.WARNING, detail, "install a driver that supports CUDA 12 or newer")


def examine_cupy(driver: Driver | None, installed: Mapping[str, str]) -> Diagnosis:
    """Judge whether CuPy is there and fits the driver."""
    found = {extra: installed[name] for extra, name in CUPY.items() if name in installed}
    described = ", ".join(f"{CUPY[extra]} {version}" for extra, version in found.items())
    wanted = driver.extra if driver else ""
    health, detail, remedy = Health.WARNING, described, ""
    if len(found) > 1:
        keep = wanted or "cuda13"
        other = next(CUPY[extra] for extra in found if extra != keep)
        detail = f"{described} overwrite each other"
        remedy = f"{_PIP} uninstall -y {other} && {install_command(keep)} --force-reinstall --no-deps"
    elif driver is None or not wanted:
        health = Health.GOOD if found else Health.OPTIONAL
        detail = described or "not installed; no use without a GPU"
    elif not found:
        detail, remedy = "not installed; CUDA variants are skipped", install_command(wanted)
    elif (extra := next(iter(found))) > wanted:
        detail = f"{described}, but the driver supports CUDA {driver.cuda[0]}.{driver.cuda[1]} at most"
        remedy = f"{_PIP} uninstall -y {CUPY[extra]} && {install_command(wanted)}"
    else:
        health = Health.GOOD
    return Diagnosis("CuPy", health, detail, remedy)


def examine_counters(driver: Driver | None, parameters: Path) -> Diagnosis:
    """Judge whether hardware counters are open to this user."""
    health, detail, remedy = Health.GOOD, "open to this user", ""
    try:
        if driver is None:
            health, detail = Health.OPTIONAL, "no NVIDIA driver"
        elif "RmProfilingAdminOnly: 1" in parameters.read_text() and os.geteuid() != 0:
            health, detail, remedy = Health.WARNING, "for administrators only", OPEN_COUNTERS
    except OSError:
        health, detail = Health.OPTIONAL, f"{parameters} cannot be read; ncu itself will say"
    return Diagnosis("GPU counters", health, detail, remedy)


def examine_opencl(
    driver: Driver | None, platforms: Sequence[Platform], has_pyopencl: bool, nvidia_icd: bool
) -> Diagnosis:
    """Judge PyOpenCL and the platforms it sees."""
    if not has_pyopencl:
        return Diagnosis("OpenCL", Health.OPTIONAL, "PyOpenCL is not installed", install_command("opencl"))
    described = "; ".join(f"{each.name}: {', '.join(each.devices) or 'no device'}" for each in platforms)
    if driver is not None and not nvidia_icd:
        remedy = f"sudo mkdir -p {OPENCL_VENDORS} && echo libnvidia-opencl.so.1 | sudo tee {OPENCL_VENDORS}/nvidia.icd"
        return Diagnosis("OpenCL", Health.WARNING, f"{described or 'no platform'}; NVIDIA's is not registered", remedy)
    if platforms:
        return Diagnosis("OpenCL", Health.GOOD, described)
    return Diagnosis("OpenCL", Health.OPTIONAL, "no platform", "sudo apt install pocl-opencl-icd (OpenCL on the CPU)")


def _examine_nvrtc(driver: Driver | None) -> Diagnosis:
    from cuprof.builds.nvrtc import nvrtc_version

    try:
        return Diagnosis("NVRTC", Health.GOOD, nvrtc_version())
    except CuprofError as error:
        health, detail = Health.WARNING if driver else Health.OPTIONAL, str(error).partition(";")[0]
        return Diagnosis("NVRTC", health, detail, install_command(_extra(driver)))


def examine_headers(driver: Driver | None, version: str) -> Diagnosis:
    """Judge CUDA's own headers, by the version of those found; only sources with `#include <…>` need them."""
    if version:
        return Diagnosis("CUDA headers", Health.GOOD, version)
    detail = "not found; only sources that include <cuda_fp16.h> and the like need them"
    return Diagnosis("CUDA headers", Health.OPTIONAL, detail, install_command(_extra(driver)))


def _examine_profiler(driver: Driver | None) -> Diagnosis:
    try:
        executable = get_executable()
        return Diagnosis(TITLE, Health.GOOD, f"{executable.version_text} at {executable.path}")
    except CuprofError as error:
        detail, _, remedy = str(error).partition("; ")
        return Diagnosis(TITLE, Health.WARNING if driver else Health.OPTIONAL, detail, remedy if driver else "")


def _extra(driver: Driver | None) -> str:
    """Return the extra with CUDA's packages: the one that the driver takes, or the newest."""
    return (driver.extra if driver else "") or "cuda13"


def _requirements() -> list[str]:
    try:
        listed = importlib.metadata.requires("cuprof") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [text for text in listed if "extra ==" not in text]


def _installed_versions() -> dict[str, str]:
    from packaging.utils import canonicalize_name

    return {canonicalize_name(each.metadata["Name"]): each.version for each in importlib.metadata.distributions()}
