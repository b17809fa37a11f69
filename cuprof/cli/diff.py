"""`cuprof diff`: what differs between the source, PTX or machine code of two stored trials."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product, zip_longest
from typing import TYPE_CHECKING, Any

from cuprof.cli.arguments import CommandParser
from cuprof.cli.output import Line, Part, Table, emit
from cuprof.core.errors import SelectionError
from cuprof.core.project import Project, find_project
from cuprof.core.text import fold

if TYPE_CHECKING:
    from cuprof.results.named_trials import NamedTrial

DESCRIPTION = """\
Print what differs between two stored trials, folded to the changes: in their source; with --ptx in their PTX, where
other registers are no change; or with --sass in their machine code, aligned by basic blocks, and how many instructions
of each kind came or went.

BASE, NEW   variants (reduction/last_warp), or configurations of one (reduction/last_warp:block=128); the fastest
            tunables of the newest sweep stand for a variant, at a problem that both sides have
SETTING     problem.AXIS=VALUE or tune.NAME=VALUE, for both sides

No GPU is needed: PTX and machine code are made again from the stored source and tunables, or are in the build cache."""

EXAMPLES = """\
  cuprof diff reduction/sequential reduction/last_warp
  cuprof diff reduction/last_warp:block=128 reduction/last_warp:block=256 --sass
  cuprof diff sequential last_warp problem.n=2**24 --sass --json"""

AROUND = 3
"""Unchanged lines or instructions that are shown before and after a change."""
STYLES = {"-": "red", "+": "green", "@": "bold"}
_PTX_NUMBERS = re.compile(r"(?<=%[a-z])\d+|(?<=%[a-z]{2})\d+|\$L\w+|\w+_param_\d+")
"""Registers, labels and parameters, which PTX numbers anew in every build."""

PARSER = CommandParser("diff", DESCRIPTION, EXAMPLES, store=True, json=True)
PARSER.add_argument("base", metavar="BASE", help="the trial before")
PARSER.add_argument("new", metavar="NEW", help="the trial after")
PARSER.add_argument("settings", metavar="SETTING", nargs="*", default=[], help="problem.AXIS=VALUE, tune.NAME=VALUE")
what = PARSER.add_mutually_exclusive_group()
what.add_argument("--source", action="store_true", help="compare the source (the default)")
what.add_argument("--ptx", action="store_true", help="compare the PTX")
what.add_argument("--sass", action="store_true", help="compare the machine code")


def main(argv: Sequence[str]) -> None:
    """Print the differences."""
    arguments = PARSER.parse_intermixed_args(argv)
    from cuprof.results.named_trials import find_trials
    from cuprof.store.store import Store

    with Store.reading(arguments.store) as connection:
        sides = [find_trials(connection, text, arguments.settings) for text in (arguments.base, arguments.new)]
    alike = ((base, new) for base, new in product(*sides) if (base.problem, base.device) == (new.problem, new.device))
    if (pair := next(alike, None)) is None:
        where = ", ".join(f"{each.variant} at {each.problem.label} on {each.device}" for each, *_ in sides)
        raise SelectionError(f"the sides have no problem and device in common: {where}")
    base, new = pair
    data: dict[str, Any] = {"base": base.label, "new": new.label}
    parts: list[Part] = [Line(f"- {base.label}", "red"), Line(f"+ {new.label}", "green")]
    if arguments.sass:
        found = code_diff(base, new, find_project())
        parts += code_parts(found)
    else:
        kind, name = ("ptx", "PTX") if arguments.ptx else ("source", "source")
        lines = list(ptx_diff(base, new, find_project()) if arguments.ptx else source_diff(base, new))
        found = {kind: lines, f"same_{kind}": not lines}
        parts += list(map(_coloured, lines)) or [Line(f"the same {name}")]
    emit(data | found, arguments.json, parts)


def source_diff(base: NamedTrial, new: NamedTrial) -> Iterator[str]:
    """Yield the changed lines of two sources, "-" and "+" before them, some lines around each, and where they are."""
    before, after = base.source_text.splitlines(), new.source_text.splitlines()
    yield from islice(difflib.unified_diff(before, after, lineterm="", n=AROUND), 2, None)


def ptx_diff(base: NamedTrial, new: NamedTrial, project: Project) -> Iterator[str]:
    """Yield the changed lines of two trials' PTX, folded as `source_diff` folds them."""
    from cuprof.builds.sass import compare_texts
    from cuprof.engine.building import rebuild_ptx

    before, after = (list(read_ptx(rebuild_ptx(each, project))) for each in (base, new))
    yield from show_changes(compare_texts(before, after, lambda line: _PTX_NUMBERS.sub("", line)), "lines")


def read_ptx(text: str) -> Iterator[str]:
    """Yield the lines of PTX that mean something: no comments, no line table, no debug sections."""
    for line in re.sub(r"\s*//.*", "", text.partition("\t.section\t.debug")[0]).splitlines():
        if line.strip() and not line.split()[0].startswith((".loc", ".file", ".version", ".target", ".address_size")):
            yield line.expandtabs(4)


def code_diff(base: NamedTrial, new: NamedTrial, project: Project) -> dict[str, Any]:
    """Return how the machine code of two trials differs: kernel by kernel, and in the counts by opcode."""
    from cuprof.builds.sass import compare_code, compare_opcodes, disassemble
    from cuprof.engine.building import rebuild

    images = [rebuild(each, project) for each in (base, new)]
    if set(images[0]) == set(images[1]):
        return {"same_code": True, "kernels": [], "opcodes": {}}
    codes = [{name: code for image in side.values() for name, code in disassemble(image).items()} for side in images]
    opcodes = compare_opcodes(*([one for code in side.values() for one in code] for side in codes))
    kernels = []
    same = [name for name in codes[0] if name in codes[1]]
    others = ([name for name in side if name not in same] for side in codes)  # go together in their order
    for ours, theirs in [*zip(same, same, strict=True), *zip_longest(*others, fillvalue="")]:
        changes = compare_code(codes[0].get(ours, ()), codes[1].get(theirs, ()))
        kernels.append({"base": ours, "new": theirs, "changes": list(show_changes(changes, "instructions"))})
    return {"same_code": False, "kernels": kernels, "opcodes": opcodes}


def show_changes(rows: Iterable[tuple[str, str]], what: str) -> Iterator[str]:
    """Yield the rows with a sign "-" or "+", and some around each; a line says how many others are left out."""
    texts = [f"{sign.replace('=', ' ')} {text}" for sign, text in rows]
    changed = [number for number, text in enumerate(texts) if text[0] != " "]
    for number, left_out in fold(changed, AROUND, 0, len(texts) - 1):
        if left_out:
            yield f"@@ {left_out} {what} alike @@"
        yield texts[number]


def code_parts(found: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the differences in machine code for people."""
    if found["same_code"]:
        yield Line("the same machine code, but for names, addresses and the scheduler's bits", "bold")
        return
    for kernel in found["kernels"]:
        yield Line("")
        yield Line(" → ".join(dict.fromkeys(filter(None, (kernel["base"], kernel["new"])))), "bold")
        yield from list(map(_coloured, kernel["changes"])) or [Line("the same operations in the same order")]
    rows = [
        (name, str(before), str(after), f"{after - before:+}") for name, (before, after) in found["opcodes"].items()
    ]
    if rows:
        yield Line("")
        yield Table(("opcode", "base", "new", "change"), rows, ("base", "new", "change"))


def _coloured(text: str) -> Line:
    return Line(text, STYLES.get(text[:1], ""))
