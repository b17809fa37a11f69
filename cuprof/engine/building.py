"""Compile without a device: all that a selection needs for an architecture, or a stored trial's program again."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from cuprof.backends.functions import find_absent, find_mismatch
from cuprof.backends.registry import find_builder
from cuprof.builds.machine_code import hash_launched
from cuprof.builds.nvrtc import pick_arch
from cuprof.builds.result import VIRTUAL
from cuprof.config.model import SweepConfig
from cuprof.core.errors import BuildError, ImpossibleError, UsageError
from cuprof.core.processes import count_cores
from cuprof.core.project import Project
from cuprof.core.records import Trial
from cuprof.engine.devices import open_executors
from cuprof.engine.planning import prepare
from cuprof.families import Family, Program
from cuprof.families.origin import find_folder
from cuprof.families.sources import relocate
from cuprof.plan.identity import canonical_json
from cuprof.results.named_trials import NamedTrial


@dataclass(frozen=True)
class Built:
    """The result of compiling one program, or of comparing its calls with its source where that takes its device.

    Args:
        trial: the first of those that run this program.
        is_compiled: a compiler here builds it without a device.
        error: the compiler's first error line, or a call that does not fit; empty if all is well.
        is_impossible: it needs more than the architecture has, which does not count as a failure.
    """

    trial: Trial
    is_compiled: bool
    error: str = ""
    log: str = ""
    is_impossible: bool = False


def build_selection(config: SweepConfig, project: Project, arch: str) -> tuple[list[Built], tuple[str, ...]]:
    """Compile each program of a selection once, side by side.

    Returns:
        The results in the order of the plan, and the variants that have no program.

    Raises:
        UsageError: the selection cannot be carried out.
    """
    with open_executors(config) as executors:
        prepared = prepare(replace(config, dry_run=True), project, executors)
    family = prepared.family
    others = dict.fromkeys(trial.variant for trial in prepared.plan.trials if trial.kind != "kernel")
    programs: dict[str, tuple[Trial, Program]] = {}
    for trial in (each for each in prepared.plan.trials if each.kind == "kernel"):
        program: Program = family.variant(trial.variant).make(trial.problem, trial.tunables)
        compiled = replace(program, steps=()).describe()
        kernels = sorted({launch.kernel for launch in program.launches})
        programs.setdefault(canonical_json([trial.variant, compiled, kernels]), (trial, program))
    with ThreadPoolExecutor(count_cores()) as threads:
        built = list(threads.map(lambda each: _check(family, each[0], each[1], arch), programs.values()))
    return built, tuple(others)


def _check(family: Family, trial: Trial, program: Program, arch: str) -> Built:
    variant, signature = family.variant(trial.variant), family.signature(trial.problem)
    build = find_builder(trial.backend)
    try:
        if build is not None:
            build(variant, program, trial.source_text, signature, arch)
    except ImpossibleError as error:
        return Built(trial, is_compiled=True, error=str(error), is_impossible=True)
    except BuildError as error:
        where = variant.source, family.folder
        return Built(trial, is_compiled=True, error=relocate(str(error), *where), log=relocate(error.log, *where))
    absent = find_absent(program, trial.source_text) if build is None else ""
    fault = absent or find_mismatch(program, trial.source_text, signature)
    return Built(trial, is_compiled=build is not None, error=fault)


def rebuild(trial: NamedTrial, project: Project) -> Mapping[str, bytes]:
    """Return hash → cubin of a trial's program, compiled for its device or taken from the build cache.

    Launches and macros are those that the family gives its tunables today; the text is the stored one.

    Raises:
        UsageError: it has no program that is compiled here.
        CuprofError: the family cannot be loaded, or the compiler refuses the source.
    """
    program, images = _build(trial, project)
    found = {hash_launched(image, {launch.kernel for launch in program.launches}): image for image in images}
    if not all(found):
        raise UsageError(f"{trial.label} was built to no cubin, so there is no machine code to see")
    return found


def rebuild_ptx(trial: NamedTrial, project: Project) -> str:
    """Return the PTX of a trial's program; of one that is stored as PTX, the stored text.

    Raises:
        UsageError, CuprofError: see `rebuild`.
    """
    _, images = _build(trial, project, VIRTUAL)
    if not images and ".target" in trial.source_text:
        return trial.source_text
    if not images or any(image.startswith(b"\x7fELF") for image in images):
        raise UsageError(f"{trial.label} was built to no PTX: it is a ready image, or a library")
    return "\n".join(image.decode(errors="replace").rstrip("\0") for image in images)


def _build(trial: NamedTrial, project: Project, target: str = "sm_") -> tuple[Program, list[bytes]]:
    build = find_builder(trial.backend)
    if trial.kind != "kernel" or build is None:
        raise UsageError(
            f"{trial.label} has no machine code that is built here: it is {trial.kind} for {trial.backend}"
        )
    family = find_folder(trial.family, project.folders("kernels")).load()
    variant = family.variant(trial.variant)
    program = variant.make(trial.problem, trial.tunables)
    capability = str(trial.device_facts.get("compute_capability", ""))
    if not capability:
        raise UsageError(f"{trial.label}: the stored device {trial.device!r} names no compute capability")
    arch = pick_arch(*map(int, capability.split("."))).replace("sm_", target)
    return program, build(variant, program, trial.source_text, family.signature(trial.problem), arch)
