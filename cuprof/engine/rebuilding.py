"""Make the machine code, or the PTX, of a stored trial again, from its stored source and tunables, without a device."""

from __future__ import annotations

from collections.abc import Mapping

from cuprof.backends.registry import find_builder
from cuprof.builds.machine_code import hash_launched
from cuprof.builds.nvrtc import pick_arch
from cuprof.builds.result import VIRTUAL
from cuprof.core.errors import UsageError
from cuprof.core.project import Project
from cuprof.families import Program
from cuprof.families.origin import find_folder
from cuprof.results.named_trials import NamedTrial


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
    family = find_folder(trial.family, project.kernel_folders).load()
    variant = family.variant(trial.variant)
    program = variant.make(trial.problem, trial.tunables)
    capability = str(trial.device_facts.get("compute_capability", ""))
    if not capability:
        raise UsageError(f"{trial.label}: the stored device {trial.device!r} names no compute capability")
    arch = pick_arch(*map(int, capability.split("."))).replace("sm_", target)
    return program, build(variant, program, trial.source_text, family.signature(trial.problem), arch)
