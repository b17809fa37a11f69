"""`cuprof list`: families, variants, experiments, devices and metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import dropwhile, takewhile
from pathlib import Path
from textwrap import shorten
from typing import Any

from cuprof.backends import registry
from cuprof.cli.arguments import CommandParser
from cuprof.cli.choice import list_choices
from cuprof.cli.output import emit, print_message
from cuprof.core.errors import CuprofError, FamilyError, UnknownNameError
from cuprof.core.files import read_regular
from cuprof.core.point import format_coordinate
from cuprof.core.project import Project, find_project
from cuprof.families import origin
from cuprof.interop.origins import find_origin
from cuprof.ncu.metrics import METRICS

EXAMPLES = """\
  cuprof list                       how many there are of each, and how to see them
  cuprof list families
  cuprof list variants reduction
  cuprof list experiments --json
  cuprof list devices --full        every fact: clocks, bus width, theoretical bandwidth, a multiprocessor's resources
  cuprof list metrics"""


def main(argv: Sequence[str]) -> None:
    """Print one list, or an overview of all."""
    arguments = PARSER.parse_args(argv)
    what, project = arguments.what or "", find_project()
    if arguments.names and what not in ("variants", "metrics"):
        raise UnknownNameError("argument", arguments.names[0], [], f"of cuprof list {what}")
    if arguments.full and what != "devices":
        raise UnknownNameError("option", "--full", [], f"of cuprof list {what}".rstrip())
    entries = list_device_facts if arguments.full else LISTS[what][0] if what else list_lists
    if (records := list(entries(project, arguments.names))) or arguments.json:
        emit(records, arguments.json)
    else:
        print_message("there are none")


def list_lists(project: Project, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield one record a list: how many entries it has, the first of them, and the command that shows them all."""
    for what, (entries, key) in LISTS.items():
        names = [str(record[key]) for record in entries(project, ())]
        first = shorten(", ".join(dict.fromkeys(names)), SUCH_AS, placeholder=" …")
        yield {"what": what, "count": len(names), "see": f"cuprof list {what}", "such as": first}


def list_families(project: Project, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield one record a family; one whose family.py fails is listed with its error."""
    for name, folder in _find_families(project).items():
        try:
            family = origin.load_family(folder)
            axes = ", ".join(f"{axis.name}={format_coordinate(axis.default)}" for axis in family.axes)
            title, variants = family.title, len(family.variants)
        except FamilyError as error:
            title, axes, variants = f"cannot be loaded: {error}", "", 0
        yield {"family": name, "title": title, "axes": axes, "variants": variants, "folder": str(folder)}


def list_variants(project: Project, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield one record a variant of the named families, of all families when none is named.

    Raises:
        UnknownNameError: there is no such family.
        FamilyError: a named family cannot be loaded; without names such a family is passed over with a warning.
    """
    for name in names or _find_families(project):
        try:
            family = find_origin(name, project.folders("kernels")).load()
        except FamilyError as error:
            if names:
                raise
            print_message(f"warning: {error}")
            continue
        for variant in family.variants.values():
            tunables = (f"{each.name}={each.default} of {','.join(map(str, each.values))}" for each in variant.tunables)
            yield {
                "family": family.name,
                "variant": variant.name + (" (base)" if variant.name == family.get_baseline() else ""),
                "backend": variant.backend,
                "tunables": "; ".join(tunables),
                "description": variant.description,
            }


def list_experiments(project: Project, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield one record an experiment: its name, and the first sentence of the first comment that is not Hydra's own."""
    for name, file in list_choices(project, "experiment").items():
        lines = read_regular(file).decode(errors="replace").splitlines()
        told = takewhile(re.compile("#").match, dropwhile(re.compile("# @package|$").match, lines))
        sentence, stop, _ = " ".join(line.lstrip("# ") for line in told).partition(". ")
        yield {"experiment": name, "about": sentence + stop.strip(), "file": str(file)}


def list_devices(project: Project, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield one record a device, without opening any of them."""
    for backend in registry.list_backends():
        yield from ({"backend": backend, **asdict(device)} for device in registry.list_devices(backend))


def list_device_facts(project: Project, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield one record a fact of every device; a device that cannot be opened is passed over with a warning."""
    for backend in registry.list_backends():
        for device in registry.list_devices(backend):
            number = None if registry.get_spec(backend).is_host else device.index
            try:
                facts = registry.find_facts(backend, number) or registry.open_backend(backend, number).facts()
            except CuprofError as error:
                print_message(f"warning: {backend} {device.index}: {error}")
                continue
            named = {"backend": backend, "index": device.index, "device": facts.name}
            known = {**facts.identity, **facts.details, "memory_bytes": facts.memory_bytes}
            for fact, value in known.items():
                if fact != "name" and value not in (None, ""):
                    yield {**named, "fact": fact, "value": value}


def list_metrics(project: Project, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield one record a hardware counter that cuprof explains; names choose those that contain one of them."""
    for metric in METRICS.values():
        if not names or any(name in metric.name for name in names):
            yield {"metric": metric.name, "unit": metric.unit, "meaning": metric.meaning}


LISTS: dict[str, tuple[Callable[[Project, Sequence[str]], Iterator[dict[str, Any]]], str]] = {
    "families": (list_families, "family"),
    "variants": (list_variants, "variant"),
    "experiments": (list_experiments, "experiment"),
    "devices": (list_devices, "name"),
    "metrics": (list_metrics, "metric"),
}
"""List → its entries, and the field that names them."""

PARSER = CommandParser(
    "list",
    "List families, variants, experiments, devices, or the metrics that cuprof explains; alone, an overview.",
    EXAMPLES,
    json=True,
)
PARSER.add_argument("what", choices=tuple(LISTS), nargs="?", help="which list (default: an overview)")
PARSER.add_argument("names", metavar="NAME", nargs="*", help="families whose variants, or parts of metric names")
PARSER.add_argument("--full", action="store_true", help="devices: every fact of each, one a line")

SUCH_AS = 33
"""Columns for the names in the overview."""


def _find_families(project: Project) -> dict[str, Path]:
    """Return name → folder of every family, the project's own first."""
    folders = project.folders("kernels")
    return origin.list_families(folders[:1]) | origin.list_families(folders)
