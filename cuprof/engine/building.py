"""Compile all that a selection needs for a named architecture, on any machine."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from cuprof.backends.declared import find_mismatch
from cuprof.backends.registry import find_builder
from cuprof.config.model import SweepConfig
from cuprof.core.errors import BuildError, ImpossibleError
from cuprof.core.processes import count_cores
from cuprof.core.project import Project
from cuprof.core.records import Trial
from cuprof.engine.devices import open_executors
from cuprof.engine.planning import prepare
from cuprof.families import Family, Program
from cuprof.families.sources import relocate
from cuprof.plan.identity import canonical_json, program_json


@dataclass(frozen=True)
class Built:
    """The result of compiling one program.

    Args:
        trial: the first of those that run this program.
        error: the compiler's first error line, empty where it compiled; `log` is its whole output.
        is_impossible: it needs more than the architecture has, which does not count as a failure.
    """

    trial: Trial
    error: str = ""
    log: str = ""
    is_impossible: bool = False


@dataclass(frozen=True)
class Building:
    """Programs to compile for the trials of a plan.

    Args:
        programs: each program that a compiler here builds without a device, with the first trial that runs it.
        others: the variants whose programs are compiled where they run, or that have none.
        unbuilt: the programs of `others`; only their calls are checked against the source.
    """

    family: Family
    programs: tuple[tuple[Trial, Program], ...]
    others: tuple[str, ...]
    unbuilt: tuple[tuple[Trial, Program], ...] = ()

    def run(self, arch: str) -> Iterator[Built]:
        """Compile side by side; yield in the order of the plan."""
        with ThreadPoolExecutor(count_cores()) as threads:
            yield from threads.map(lambda each: self._build(each[0], each[1], arch), self.programs)
        for trial, program in self.unbuilt:
            if fault := self._find_fault(trial, program):
                yield Built(trial, fault)

    def _find_fault(self, trial: Trial, program: Program) -> str:
        """Return which of a program's calls does not fit the parameters that its source declares."""
        signature = self.family.signature(trial.problem)
        buffers = {**signature.inputs, **signature.outputs, **program.scratch}
        return find_mismatch(program, trial.source_text, {name: array.type for name, array in buffers.items()})

    def _build(self, trial: Trial, program: Program, arch: str) -> Built:
        variant = self.family.variant(trial.variant)
        build = find_builder(trial.backend)
        assert build is not None
        try:
            build(variant, program, trial.source_text, self.family.signature(trial.problem), arch)
        except ImpossibleError as error:
            return Built(trial, str(error), is_impossible=True)
        except BuildError as error:
            where = variant.source, self.family.folder
            return Built(trial, relocate(str(error), *where), relocate(error.log, *where))
        return Built(trial, self._find_fault(trial, program))


def prepare_building(config: SweepConfig, project: Project) -> Building:
    """Plan a selection, and return each program of it that is compiled, once.

    Raises:
        UsageError: the selection cannot be carried out.
    """
    with open_executors(config) as executors:
        prepared = prepare(replace(config, dry_run=True), project, executors)
    family = prepared.family
    programs: dict[str, tuple[Trial, Program]] = {}
    unbuilt: dict[str, tuple[Trial, Program]] = {}
    others: dict[str, None] = {}
    for trial in prepared.plan.trials:
        has_builder = find_builder(trial.backend) is not None
        if trial.kind != "kernel" or not has_builder:
            others[trial.variant] = None
        if trial.kind != "kernel":
            continue
        program: Program = family.variant(trial.variant).make(trial.problem, trial.tunables)
        compiled = program_json(replace(program, steps=()))
        kernels = sorted({launch.kernel for launch in program.launches})
        kept = programs if has_builder else unbuilt
        kept.setdefault(canonical_json([trial.variant, compiled, kernels]), (trial, program))
    return Building(family, tuple(programs.values()), tuple(others), tuple(unbuilt.values()))
