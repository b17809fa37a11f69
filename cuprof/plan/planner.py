"""Expand a selection into trials: pure planning, without any device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from cuprof.core.errors import CuprofError, FamilyError, ImpossibleError, SelectionError
from cuprof.core.point import Point, describe_coordinate
from cuprof.core.records import DeviceFacts, Trial, Unavailable
from cuprof.core.text import summarize
from cuprof.families.fingerprint import contract_text, hash_text, source_text
from cuprof.families.model import Family, Signature, Variant
from cuprof.families.program import Program
from cuprof.families.requirements import check_requirements
from cuprof.families.trace import describe, place_of
from cuprof.plan.identity import Identifier, defines_json, flat_json, frame_json, frame_key, headers_of
from cuprof.plan.memory import explain_excess, scratch_bytes, signature_bytes
from cuprof.plan.model import Exclusion, Plan, Selection
from cuprof.plan.program_check import check_names, check_program
from cuprof.plan.selection import Choice, Grid, points_of, read_selection

T = TypeVar("T")

MOST_REASONS = 4
WARP_THREADS = 32
MOST_WORK = 2**63 - 1
"""The largest integer that databases hold."""


def plan(family: Family, selection: Selection, devices: Mapping[str, DeviceFacts | Unavailable]) -> Plan:
    """Return the trials of a selection, in an order that depends on nothing but family and selection.

    Args:
        family: loaded by `cuprof.families.loader`.
        selection: what to take of it.
        devices: back end → its device, or why there is none. A trial without a device is planned all the same, with
            `unavailable` set and an identity of its own. One that needs more than all of its device's memory has
            `unavailable` set too.

    Raises:
        UnknownNameError: a variant, axis, preset or tunable that does not exist.
        SelectionError: a value that is not allowed, or constraints that leave no trial.
        FamilyError: a function of the family raises, or returns an invalid program.
    """
    choice = read_selection(family, selection)
    contract = hash_text(contract_text(family))
    lines = [_VariantPlanner(family, variant, devices, contract) for variant in choice.variants]
    return _expand(family, selection, choice, lines)


def _expand(family: Family, selection: Selection, choice: Choice, lines: list[_VariantPlanner]) -> Plan:
    trials: list[Trial] = []
    present: set[str] = set()
    refused: dict[str, list[str]] = {}
    excluded = [
        Exclusion(f"{family.name}/{variant}", reason)
        for variant, reasons in choice.lacking.items()
        for reason in reasons
    ]
    for preset, point in choice.problems:
        problem = _Problem(family, point, preset)
        if problem.excluded:
            excluded.append(Exclusion(f"{family.name} · {problem.label}", str(problem.excluded)))
            continue
        for line in lines:
            for described in _described(choice.tunables[line.variant.name]):
                made = line.make(problem, *described)
                if isinstance(made, Exclusion):
                    excluded.append(made)
                    refused.setdefault(line.variant.name, []).append(made.reason)
                else:
                    trials.append(made)
                    present.add(line.variant.name)
    if not trials:
        raise SelectionError(_nothing_left([each.reason for each in excluded]))
    impossible = summarize(exclusion.reason for exclusion in excluded if exclusion.is_impossible)
    notes = [f"{count} impossible whatever the device: {reason}" for count, reason in impossible]
    notes += [
        f"{name}: {_nothing_left(reasons)}"
        for name, reasons in refused.items()
        if name not in present and not {*reasons} <= {each.reason for each in excluded if each.is_impossible}
    ]
    return Plan(family, selection, tuple(trials), tuple(excluded), (*choice.notes, *notes))


class _Problem:
    """One problem: what is the same for every trial of it, worked out once."""

    def __init__(self, family: Family, point: Point, preset: str) -> None:
        self.family, self.point = family, point
        self.label = f"{preset} ({point.label})" if preset else point.label
        self.excluded = self._value("constraint", family.constraint) if family.constraint else None
        check_reason(self.excluded, f"family {family.name}: constraint at {self.label}")
        if self.excluded:
            return
        self.signature: Signature = self._value("signature", family.signature)
        self.bytes: int = self._value("signature", lambda _: signature_bytes(self.signature))
        self.useful_bytes: int = self._value("useful_bytes", lambda point: int(family.useful_bytes(point)))
        flops = family.flops
        self.flops: int | None = self._value("flops", lambda point: int(flops(point))) if flops else None
        for name, work in (("useful_bytes", self.useful_bytes), ("flops", self.flops or 0)):
            if not 0 <= work <= MOST_WORK:
                raise FamilyError(f"family {family.name}: {name} at {self.label} is {work}; it is from 0 to 2^63 - 1")

    def _value(self, part: str, function: Callable[[Point], T]) -> T:
        return guarded(f"family {self.family.name}: {part} at {self.label}", self.family.folder, function, self.point)


class _VariantPlanner:
    """Make the trials of one variant."""

    def __init__(
        self,
        family: Family,
        variant: Variant,
        devices: Mapping[str, DeviceFacts | Unavailable],
        contract: str,
    ) -> None:
        self.family, self.variant = family, variant
        there = devices.get(variant.backend, Unavailable(f"no {variant.backend} device was looked for"))
        self.device = there if isinstance(there, DeviceFacts) else None
        self.unavailable = there if isinstance(there, Unavailable) else check_requirements(variant.requires)
        self.order = list(family.variants).index(variant.name)
        self.source = source_text(family, variant)
        self.source_hash = hash_text(self.source)
        if variant.tolerance is not None:
            contract = hash_text(contract_text(family, variant))
        headers = headers_of(variant, self.source)
        self._frames: dict[tuple[object, ...], tuple[str, str, int, int | None]] = {}
        self._common: Trial | None = None
        self.identifier = Identifier(family, variant, self.device, self.source_hash, contract, headers)

    def make(self, problem: _Problem, tunables: Point, choice: str, tunables_json: str) -> Trial | Exclusion:
        """Return the trial at a problem and tunables, which are labelled as `choice`, or why it is none."""
        variant = self.variant
        label = f"{self.family.name}/{variant.name} · {problem.label}"
        if choice:
            label += f" · {choice}"
        if variant.constraint is not None:
            reason = guarded(f"{label}: constraint", self.family.folder, variant.constraint, problem.point, tunables)
            check_reason(reason, f"{label}: constraint")
            if reason:
                return Exclusion(label, reason)
        content, needed, threads = "null", problem.bytes, None
        if variant.kind == "kernel":
            try:
                content, scratch, threads = guarded(
                    label, self.family.folder, self._read_program, problem, tunables, label
                )
            except ImpossibleError as error:
                return Exclusion(label, str(error), is_impossible=True)
            needed += scratch
        unavailable = self.unavailable
        if unavailable is None and self.device is not None and needed > self.device.memory_bytes:
            unavailable = explain_excess(self.family, problem.point, needed, self.device)
        identity = self.identifier.identify(problem.point, tunables_json, content)
        return self._template(problem).at(tunables, identity, label, unavailable, threads)

    def _read_program(self, problem: _Problem, tunables: Point, label: str) -> tuple[str, int, int | None]:
        """Return a program's JSON, its scratch and threads a block; what differs in macros alone is checked once."""
        program: Program = self.variant.make(problem.point, tunables)
        if self._common is None or self._common.problem is not problem.point:
            self._frames.clear()
        key: tuple[object, ...] | None
        try:
            key = frame_key(program)
            known = self._frames.get(key)
        except (TypeError, AttributeError):  # of something that has no hash, or is no program: most likely a fault
            key = known = None
        if known is None:
            check_program(program, problem.signature, self.variant.backend, label, self.family.constants)
            known = (*frame_json(program), scratch_bytes(program), program.block_threads)
            if key is not None:
                self._frames[key] = known
        before, after, scratch, threads = known
        check_names(program.defines, label)
        warps = program.defines.get("num_warps")
        threads = threads or (WARP_THREADS * warps if isinstance(warps, int) else None)
        return f"{before}{defines_json(program)}{after}", scratch, threads

    def _template(self, problem: _Problem) -> Trial:
        """Return a trial at a problem, for what all of them there have in common."""
        if self._common is None or self._common.problem is not problem.point:
            variant = self.variant
            self._common = Trial(
                identity="",
                family=self.family.name,
                variant=variant.name,
                backend=variant.backend,
                kind=variant.kind,
                problem=problem.point,
                tunables=Point(),
                label="",
                device=self.device,
                source_text=self.source,
                source_hash=self.source_hash,
                description=variant.description,
                origin=variant.origin,
                expected=variant.expected,
                order=self.order,
                useful_bytes=problem.useful_bytes,
                flops=problem.flops,
            )
        return self._common


def _described(grid: Grid) -> Iterator[tuple[Point, str, str]]:
    """Yield each point of a grid, its label and its canonical JSON, both put together from those of coordinates."""
    axes = [
        [(describe_coordinate(name, each), flat_json({name: each})[1:-1]) for each in values]
        for name, values in grid.items()
    ]
    order = [place for _, place in sorted((name, place) for place, name in enumerate(grid))]
    for point, coordinates in zip(points_of(grid), itertools.product(*axes), strict=True):
        texts = ",".join([coordinates[place][1] for place in order])
        yield point, ", ".join([label for label, _ in coordinates]), f"{{{texts}}}"


def check_reason(reason: object, where: str) -> None:
    """Raise `FamilyError` where a constraint answers anything but a reason or None, such as whether it is met."""
    if reason is not None and not isinstance(reason, str):
        raise FamilyError(
            f"{where}: returned {reason!r}; return the reason why the combination is not defined, or None where it is"
        )


def guarded(where: str, folder: Path | None, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function of a family, and turn what it raises into a `FamilyError` that says where; cuprof's own pass."""
    try:
        return function(*arguments)
    except CuprofError:
        raise
    except (Exception, SystemExit) as error:
        raise FamilyError(f"{where}: raised {describe(error)}{place_of(error, folder)}") from error


def _nothing_left(excluded: list[str]) -> str:
    reasons = list(dict.fromkeys(excluded))
    shown = "; ".join(reasons[:MOST_REASONS])
    more = f"; and {len(reasons) - MOST_REASONS} more reasons" if len(reasons) > MOST_REASONS else ""
    return f"the constraints leave no trial of the {len(excluded)} combinations: {shown}{more}"
