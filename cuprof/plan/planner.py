"""Expand a selection into trials: pure planning, without any device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cuprof.backends.contract import arena_bytes
from cuprof.core.errors import CuprofError, FamilyError, ImpossibleError, SelectionError
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts, Devices, Trial, Unavailable
from cuprof.core.text import format_bytes, list_first, summarize
from cuprof.families.fingerprint import contract_text, hash_text, source_text
from cuprof.families.model import Family, Signature, Variant
from cuprof.families.program import Program
from cuprof.families.toolchain import check_requirements
from cuprof.families.trace import blame
from cuprof.plan.identity import Identifier
from cuprof.plan.model import Exclusion, Plan, Selection
from cuprof.plan.program_check import check_program
from cuprof.plan.selection import points_of, read_selection

T = TypeVar("T")

MOST_REASONS = 4
MOST_WORK = 2**63 - 1
"""The largest integer that databases hold."""


def plan(family: Family, selection: Selection, devices: Devices) -> Plan:
    """Return the trials of a selection, in an order that depends on nothing but family and selection.

    Args:
        family: loaded by `cuprof.families.origin`.
        devices: back end → its device, or why there is none. A trial without a device, or one that needs more than
            all of its memory, is planned with `unavailable` set; without a device it has an identity of its own.

    Raises:
        UnknownNameError: a variant, axis, preset or tunable that does not exist.
        SelectionError: a value that is not allowed, or constraints that leave no trial.
        FamilyError: a function of the family raises, or returns an invalid program.
    """
    choice = read_selection(family, selection)
    contract = hash_text(contract_text(family))
    lines = {name: _VariantPlanner(family, family.variants[name], devices, contract) for name in choice.tunables}
    trials: list[Trial] = []
    refused: dict[str, list[str]] = {}
    excluded = list(choice.excluded)
    for point, preset in choice.problems.items():
        problem = _Problem(family, point, preset)
        if problem.excluded:
            excluded.append(Exclusion(f"{family.name} · {problem.label}", problem.excluded, problem=point))
            continue
        for name, axes in choice.tunables.items():
            for tunables in points_of(axes):
                made = lines[name].make(problem, tunables)
                if isinstance(made, Trial):
                    trials.append(made)
                else:
                    excluded.append(made)
                    refused.setdefault(name, []).append(made.reason)
    if not trials:
        raise SelectionError(_nothing_left([each.reason for each in excluded]))
    impossible = [each.reason for each in excluded if each.is_impossible]
    notes = [f"{count} impossible whatever the device: {reason}" for count, reason in summarize(impossible)]
    present = {trial.variant for trial in trials}
    absent = [name for name, reasons in refused.items() if name not in present and not {*reasons} <= {*impossible}]
    notes += [f"{name}: {_nothing_left(refused[name])}" for name in absent]
    return Plan(selection, tuple(trials), tuple(excluded), (*choice.notes, *notes))


class _Problem:
    """One problem, with everything that its trials share."""

    def __init__(self, family: Family, point: Point, preset: str) -> None:
        self.family, self.point = family, point
        self.label = f"{preset} ({point.label})" if preset else point.label
        where = f"family {family.name}: constraint at {self.label}"
        self.excluded = find_reason(where, family.folder, family.constraint, point)
        if self.excluded:
            return
        self.signature: Signature = self._value("signature", family.signature)
        self.bytes: int = self._value("signature", lambda _: self.signature.nbytes)
        self.useful_bytes: int = self._value("useful_bytes", lambda point: int(family.useful_bytes(point)))
        flops = family.flops
        self.flops: int | None = self._value("flops", lambda point: int(flops(point))) if flops else None
        for name, work in (("useful_bytes", self.useful_bytes), ("flops", self.flops or 0)):
            if not 0 <= work <= MOST_WORK:
                raise FamilyError(f"family {family.name}: {name} at {self.label} is {work}; it is from 0 to 2^63 - 1")

    def _value(self, part: str, function: Callable[[Point], T]) -> T:
        return guarded(f"family {self.family.name}: {part} at {self.label}", self.family.folder, function, self.point)


class _VariantPlanner:
    def __init__(self, family: Family, variant: Variant, devices: Devices, contract: str) -> None:
        self.family, self.variant = family, variant
        there = devices.get(variant.backend, Unavailable(f"no {variant.backend} device was looked for"))
        self.device = there if isinstance(there, DeviceFacts) else None
        self.unavailable = there if isinstance(there, Unavailable) else check_requirements(variant.requires)
        self.order = list(family.variants).index(variant.name)
        self.source = source_text(family, variant)
        if variant.tolerance is not None:
            contract = hash_text(contract_text(family, variant))
        self.identifier = Identifier(family, variant, self.device, self.source, contract)

    def make(self, problem: _Problem, tunables: Point) -> Trial | Exclusion:
        """Return the trial at a problem and tunables, or why it is none."""
        variant = self.variant
        label = " · ".join(filter(None, (f"{self.family.name}/{variant.name}", problem.label, tunables.label)))
        try:
            return guarded(label, self.family.folder, self._make, problem, tunables, label)
        except ImpossibleError as error:
            return Exclusion(label, str(error), is_impossible=True, problem=problem.point)

    def _make(self, problem: _Problem, tunables: Point, label: str) -> Trial | Exclusion:
        variant, program = self.variant, None
        where = f"{label}: constraint"
        if reason := find_reason(where, self.family.folder, variant.constraint, problem.point, tunables):
            return Exclusion(label, reason, problem=problem.point)
        if variant.kind == "kernel":
            program = variant.make(problem.point, tunables)
            check_program(program, problem.signature, variant.backend, label, self.family.constants)
        return Trial(
            identity=self.identifier.identify(problem.point, tunables, program),
            family=self.family.name,
            variant=variant.name,
            backend=variant.backend,
            kind=variant.kind,
            problem=problem.point,
            tunables=tunables,
            label=label,
            device=self.device,
            source_text=self.source,
            source_hash=self.identifier.source_hash,
            description=variant.description,
            origin=variant.origin,
            expected=variant.expected,
            order=self.order,
            useful_bytes=problem.useful_bytes,
            flops=problem.flops,
            unavailable=self._explain_absence(problem, program),
            threads=None if program is None else program.block_threads,
        )

    def _explain_absence(self, problem: _Problem, program: Program | None) -> Unavailable | None:
        """Return why a trial cannot run: it has no device, or needs more than all of its memory (0: unknown)."""
        device, needed = self.device, problem.bytes + arena_bytes(program)
        if self.unavailable is not None or device is None or not 0 < device.memory_bytes < needed:
            return self.unavailable
        sizes = [axis.name for axis in self.family.axes if axis.is_integer and not axis.choices]
        return Unavailable(
            f"{problem.point.label} needs {format_bytes(needed)} of memory for inputs, outputs and scratch, "
            f"and {device.name} has {format_bytes(device.memory_bytes)}",
            f"choose a smaller {' or '.join(sizes) or 'problem'}",
        )


def find_reason(where: str, folder: Path | None, constraint: Callable[..., Any] | None, *points: Point) -> str | None:
    """Return a constraint's reason; raise `FamilyError` if it returned anything but a text or None, such as a bool."""
    reason = None if constraint is None else guarded(where, folder, constraint, *points)
    if reason is not None and not isinstance(reason, str):
        raise FamilyError(
            f"{where}: returned {reason!r}; return the reason why the combination is not defined, or None where it is"
        )
    return reason


def guarded(where: str, folder: Path | None, function: Callable[..., T], *arguments: Any) -> T:
    """Call a family's function; turn what it raises, except cuprof's errors, into a `FamilyError` that says where."""
    try:
        return function(*arguments)
    except CuprofError:
        raise
    except (Exception, SystemExit) as error:
        raise FamilyError(blame(error, folder, f"{where}:")) from error


def _nothing_left(excluded: list[str]) -> str:
    reasons = list_first(list(dict.fromkeys(excluded)), MOST_REASONS, "; ")
    return f"the constraints leave no trial of the {len(excluded)} combinations: {reasons}"
