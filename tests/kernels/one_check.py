"""Check one variant of a family in this process."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cache

from cuprof.core.errors import CuprofError
from cuprof.core.point import Coordinate
from cuprof.core.records import Check, Outcome, State
from cuprof.families import Family, Point, Variant
from cuprof.families.fingerprint import source_text
from cuprof.plan import Selection, plan
from cuprof.worker.devices import DeviceTable
from cuprof.worker.job import Held, JobRun
from cuprof.worker.messages import Job, JobTrial, WorkerSettings
from cuprof.worker.problem import Problem
from tests.worker.pages import Page


class CheckFailedError(CuprofError):
    """Report that a variant did not get as far as a comparison; `outcome` says how far."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(f"{outcome.state}: {outcome.message}")


def check_variant(
    family: Family,
    variant: str | Variant,
    problem: Mapping[str, Coordinate] | None = None,
    tunables: Mapping[str, Coordinate] | None = None,
    *,
    seed: int | None = None,
) -> Check:
    """Build a variant, run it on poisoned buffers and compare with the reference.

    A crash of the variant is a crash of this process; sweeps use workers instead.

    Args:
        family: loaded from its folder.
        variant: one of its variants, or the name of one.
        problem: axes that differ from their defaults.
        tunables: tunables that differ from their defaults.
        seed: of the inputs; drawn anew when None.

    Raises:
        CuprofError: the back end is not available here.
        CheckFailedError: the build or the launch failed.
    """
    chosen = family.variant(variant) if isinstance(variant, str) else variant
    backend = _devices().get(chosen.backend)
    selection = Selection(
        (chosen.name,),
        {name: (value,) for name, value in (problem or {}).items()},
        {name: (value,) for name, value in (tunables or {}).items()},
    )
    (trial,) = plan(family, selection, {chosen.backend: backend.facts()}).trials
    job = Job(
        origin=family.origin,
        backend=chosen.backend,
        problem=Point(trial.problem),
        trials=(JobTrial(trial.identity, chosen.name, trial.tunables, source_text(family, chosen)),),
        seed=secrets.randbits(63) if seed is None else seed,
    )
    (finished,) = JobRun(backend, Problem.make(family, job), job, Page(), Held()).run()  # type: ignore[arg-type]
    outcome = finished.outcome
    if outcome.state not in (State.OK, State.WRONG_RESULT) or outcome.check is None:
        raise CheckFailedError(outcome)
    return outcome.check


@cache
def _devices() -> DeviceTable:
    return DeviceTable(WorkerSettings())
