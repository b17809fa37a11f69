"""The examinations behind `cuprof doctor`, each a function from facts to a diagnosis."""

from __future__ import annotations

import importlib.metadata
import os
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
from cuprof.families.compilers import COMPILERS, REMEDIES, get_compiler
from cuprof.families.headers import find_headers
from cuprof.ncu import TITLE
from cuprof.ncu.executable import get_executable

PROFILING_PARAMETERS = Path("/proc/driver/nvidia/params")
CUPY = {"cuda12": "cupy-cuda12x", "cuda13": "cupy-cuda13x"}
OPTIONAL = {
    "pyarrow": ("parquet", "query --format parquet"),
    "psycopg": ("postgres", "a PostgreSQL store"),
    "hydra-joblib-launcher": ("launchers", "jobs in parallel"),
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
    return f"{sys.executable} -m pip install {target}"


def examine_dependencies(requirements: Sequence[str], installed: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Judge every requirement by the version that is installed.

    Args:
        requirements: as in a package's metadata ("numpy>=2.0").
        installed: normalised distribution name → version.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    for text in requirements:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        remedy = f"{sys.executable} -m pip install --upgrade '{text}'"
        if name not in installed:
            yield Diagnosis(requirement.name, Health.MISSING, "not installed", remedy)
        elif not requirement.specifier.contains(installed[name], prereleases=True):
            detail = f"{installed[name]}, but {requirement.specifier} is needed"
            yield Diagnosis(requirement.name, Health.MISSING, detail, remedy)
        else:
            yield Diagnosis(requirement.name, Health.GOOD, installed[name])


def examine_driver(driver: Driver | None) -> Diagnosis:
    """Judge the NVIDIA driver."""
    if driver is None:
        return Diagnosis("NVIDIA driver", Health.OPTIONAL, "none; CUDA variants are skipped, CPU variants run")
    detail = f"{driver.version}, CUDA {driver.cuda[0]}.{driver.cuda[1]}; " + (
        ", ".join(gpu.name for gpu in driver.gpus) or "no GPU visible"
    )
    if not driver.extra:
        return Diagnosis("NVIDIA driver", Health.WARNING, detail, "install a driver that supports CUDA 12 or newer")
    return Diagnosis("NVIDIA driver", Health.GOOD, detail)


def examine_cupy(driver: Driver | None, installed: Mapping[str, str]) -> Diagnosis:
    """Judge whether CuPy is there and fits the driver."""
    found = {extra: installed[name] for extra, name in CUPY.items() if name in installed}
    described = ", ".join(f"{CUPY[extra]} {version}" for extra, version in found.items())
    if len(found) > 1:
        keep = driver.extra if driver and driver.extra else "cuda13"
        other = next(CUPY[extra] for extra in found if extra != keep)
        remedy = f"{sys.executable} -m pip uninstall -y {other} && {install_command(keep)} --force-reinstall --no-deps"
        return Diagnosis("CuPy", Health.WARNING, f"{described} overwrite each other", remedy)
    if driver is None or not driver.extra:
        return Diagnosis(
            "CuPy", Health.GOOD if found else Health.OPTIONAL, described or "not installed; no use without a GPU"
        )
    if not found:
        return Diagnosis(
            "CuPy", Health.WARNING, "not installed; CUDA variants are skipped", install_command(driver.extra)
        )
    (extra,) = found
    if extra > driver.extra:
        remedy = f"{sys.executable} -m pip uninstall -y {CUPY[extra]} && {install_command(driver.extra)}"
        detail = f"{described}, but the driver supports CUDA {driver.cuda[0]}.{driver.cuda[1]} at most"
        return Diagnosis("CuPy", Health.WARNING, detail, remedy)
    return Diagnosis("CuPy", Health.GOOD, described)


def examine_counters(driver: Driver | None, parameters: Path) -> Diagnosis:
    """Judge whether hardware counters are open to this user."""
    if driver is None:
        return Diagnosis("GPU counters", Health.OPTIONAL, "no NVIDIA driver")
    try:
        restricted = "RmProfilingAdminOnly: 1" in parameters.read_text()
    except OSError:
        return Diagnosis("GPU counters", Health.OPTIONAL, f"{parameters} cannot be read; ncu itself will say")
    if restricted and os.geteuid() != 0:
        remedy = (
            "run ncu-collect as root, or let every user profile: echo 'options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf, then restart"
        )
        return Diagnosis("GPU counters", Health.WARNING, "for administrators only", remedy)
    return Diagnosis("GPU counters", Health.GOOD, "open to this user")


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
    if not platforms:
        return Diagnosis(
            "OpenCL", Health.OPTIONAL, "no platform", "sudo apt install pocl-opencl-icd (OpenCL on the CPU)"
        )
    return Diagnosis("OpenCL", Health.GOOD, described)


def _examine_nvrtc(driver: Driver | None) -> Diagnosis:
    from cuprof.builds.nvrtc import nvrtc_version

    try:
        return Diagnosis("NVRTC", Health.GOOD, nvrtc_version())
    except CuprofError as error:
        extra = driver.extra if driver and driver.extra else "cuda13"
        health = Health.WARNING if driver else Health.OPTIONAL
        return Diagnosis("NVRTC", health, str(error).partition(";")[0], install_command(extra))


def examine_headers(driver: Driver | None, version: str) -> Diagnosis:
    """Judge CUDA's own headers, by the version of those found; only sources with `#include <…>` need them."""
    if version:
        return Diagnosis("CUDA headers", Health.GOOD, version)
    extra = driver.extra if driver and driver.extra else "cuda13"
    detail = "not found; only sources that include <cuda_fp16.h> and the like need them"
    return Diagnosis("CUDA headers", Health.OPTIONAL, detail, install_command(extra))


def _examine_profiler(driver: Driver | None) -> Diagnosis:
    try:
        executable = get_executable()
        return Diagnosis(TITLE, Health.GOOD, f"{executable.version_text} at {executable.path}")
    except CuprofError as error:
        health = Health.WARNING if driver else Health.OPTIONAL
        detail, _, remedy = str(error).partition("; ")
        return Diagnosis(TITLE, health, detail, remedy if driver else "")


def _requirements() -> list[str]:
    try:
        listed = importlib.metadata.requires("cuprof") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [text for text in listed if "extra ==" not in text]


def _installed_versions() -> dict[str, str]:
    from packaging.utils import canonicalize_name

    return {canonicalize_name(each.metadata["Name"]): each.version for each in importlib.metadata.distributions()}
