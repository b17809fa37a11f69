"""Make the machine code of a stored trial again, from its stored source and tunables, without a device."""

from __future__ import annotations

from collections.abc import Mapping

from cuprof.backends.registry import find_builder
from cuprof.builds.machine_code import hash_launched
from cuprof.builds.nvrtc import pick_arch
from cuprof.core.errors import UsageError
from cuprof.core.project import Project
from cuprof.families.origin import find_folder
from cuprof.results.named_trials import NamedTrial


def rebuild(trial: NamedTrial, project: Project) -> Mapping[str, bytes]:
    """Return hash → cubin of a trial's program, compiled for its device or taken from the build cache.

    Launches and macros are those that the family gives its tunables today; the text is the stored one.

    Raises:
        UsageError: it has no program that is compiled here.
        CuprofError: the family cannot be loaded, or the compiler refuses the source.
    """
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
    images = build(
        variant,
        program,
        trial.source_text,
        family.signature(trial.problem),
        pick_arch(*map(int, capability.split("."))),
    )
    found = {hash_launched(image, {launch.kernel for launch in program.launches}): image for image in images}
    if not all(found):
        raise UsageError(f"{trial.label} was built to no cubin, so there is no machine code to see")
    return found
