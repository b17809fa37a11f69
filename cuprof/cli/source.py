"""`cuprof source`: which lines of a kernel's source its time goes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.cli.arguments import CommandParser
from cuprof.cli.output import Line, emit, print_message
from cuprof.core.errors import UnknownNameError, UsageError
from cuprof.core.text import fold

if TYPE_CHECKING:
    from cuprof.results.source import KernelSource

DESCRIPTION = """\
Print a kernel's source with, beside each line, its share of the samples that found a warp waiting, the commonest reason
to wait, and how often its instructions were executed, counted in warps.

VARIANT  a variant (reduction/last_warp), a configuration of it (reduction/last_warp:block=128), or the name under which
         cuprof ncu-import has filed launches of others
SETTING  problem.AXIS=VALUE or tune.NAME=VALUE, where several trials are stored
The newest profile with counters by instruction is shown; cuprof ncu-collect … ncu=source collects them."""

EXAMPLES = """\
  cuprof source reduction/last_warp
  cuprof source last_warp problem.n=2**24 --sass
  cuprof source reduction/last_warp --kernel last_warp_later --json
  cuprof ncu-import --name theirs profile.ncu-rep; cuprof source theirs --folder ~/their/code
  cuprof source theirs --folder ~/their/code --html heat.html"""

AROUND = 3
"""Lines shown before and after one that has instructions; longer stretches without any are folded."""
BAR = 10
"""Width of the bar that stands for all samples of the kernel."""
HOT, WARM = 0.2, 0.05
"""Shares of the samples from which on a line is coloured."""
NO_TABLE = (
    "its machine code has no line table: libraries ship none, OpenCL's compiler makes none, and PTX or a cubin has one "
    "only if it was compiled with -lineinfo; here are its instructions"
)

PARSER = CommandParser("source", DESCRIPTION, EXAMPLES, store=True, json=True)
PARSER.add_argument("variant", metavar="VARIANT", help="a variant, or an imported profile's name")
PARSER.add_argument("settings", metavar="SETTING", nargs="*", default=[], help="problem.AXIS=VALUE, tune.NAME=VALUE")
PARSER.add_argument("--kernel", default="", help="of several kernels, the one of this name")
PARSER.add_argument("--sass", action="store_true", help="list each line's instructions and what they wait for")
PARSER.add_argument("--html", metavar="FILE", type=Path, help="write a page, of all kernels of an imported report")
PARSER.add_argument("--folder", type=Path, help="where source files are that the report names elsewhere")


def main(argv: Sequence[str]) -> None:
    """Print the source of one kernel with what it costs, line by line."""
    arguments = PARSER.parse_intermixed_args(argv)
    if arguments.html and (other := "--json" if arguments.json else "--sass" if arguments.sass else ""):
        raise UsageError(f"--html writes a page and {other} says how to print; leave one of the two out")
    if arguments.html and arguments.html.is_dir():
        raise UsageError(f"--html {arguments.html} is a folder; name a file")
    from cuprof.results.source import find_sources
    from cuprof.store.store import Store

    with Store.reading(arguments.store) as connection:
        sources = find_sources(connection, arguments.variant, arguments.settings, of_all=arguments.html is not None)
    if arguments.html:
        from cuprof.report.page import write_kernels

        named = [arguments.kernel] if arguments.kernel else dict.fromkeys(each.kernel for each in sources)
        chosen = [_choose(sources, name, arguments.folder) for name in named]  # the busiest launch of each
        write_kernels(chosen, arguments.html)
        print(f"report: {arguments.html.absolute()}")
        return
    source = _choose(sources, arguments.kernel, arguments.folder)
    if len(sources) > 1 and not arguments.json:
        others = dict.fromkeys(each.kernel for each in sources if each.kernel != source.kernel)
        more = f", of {', '.join(others)} as well (--kernel NAME)" if others else ""
        print_message(f"launch {source.ordinal + 1} of {len(sources)} has the most samples and is shown{more}")
    emit(as_data(source), arguments.json, list(source_lines(source, with_sass=arguments.sass)))


def _choose(sources: Sequence[KernelSource], kernel: str, folder: Path | None) -> KernelSource:
    """Return the launch with the most samples, of a kernel where one is named, with the files found in a folder."""
    fitting = [each for each in sources if not kernel or each.kernel == kernel]
    if not fitting:
        raise UnknownNameError("kernel", kernel, {each.kernel for each in sources}, f"of {sources[0].name}")
    chosen = max(fitting, key=lambda each: each.stalled)
    return chosen.found_in(folder) if folder else chosen


def source_lines(source: KernelSource, *, with_sass: bool = False) -> Iterator[Line]:
    """Yield a kernel's lines with their costs, file by file, for a terminal."""
    counters = source.counters
    launch = f"kernel {source.kernel}, launch {source.ordinal + 1}, {source.cache_mode}"
    yield Line(f"{source.name} · {launch}", "bold")
    sampled = f"{source.stalled:,} of {counters.sample_count:,} samples found a warp waiting"
    yield Line(f"{sampled}; one in {counters.interval_cycles:,} cycles of each scheduler")
    yield from (Line(text, "yellow") for text in source.doubts)
    heading = f"{'line':>6}  {'stalled':>{BAR + 7}}  {'executed':>12}  {'reason':<19} source"
    if not source.has_lines:
        yield Line(f"{source.kernel}: {NO_TABLE}", "yellow")
        yield Line(heading.replace("line", "byte").replace("source", "instruction"), "dim")
        yield from _instruction_lines(source, range(len(counters.sass)))
        return
    lines = source.lines
    for file in dict.fromkeys(map(str, lines["file"])):
        text = source.texts.get(file, ())
        stored = "" if text else "  (its text is not stored, nor is there such a file here; --folder DIR finds it)"
        yield Line("")
        yield Line(f"{file or 'no line'}{stored if file else ''}", "bold")
        yield Line(heading, "dim")
        rows: Any = lines[lines["file"] == file].itertuples()
        costs: dict[int, Any] = {row.line: row for row in rows}
        for place, (number, left_out) in enumerate(fold(costs, AROUND, 1, len(text))):
            if place and left_out:
                yield Line(f"{'⋮':>6}", "dim")
            cost = costs.get(number)
            yield _line(f"{number}", cost, source.text(file, number).expandtabs(4))
            if with_sass and cost is not None:
                instructions = source.instructions
                own = (instructions["file"] == file) & (instructions["line"] == number)
                yield from _instruction_lines(source, own.to_numpy().nonzero()[0].tolist())


def _instruction_lines(source: KernelSource, numbers: Sequence[int]) -> Iterator[Line]:
    instructions = source.instructions
    for number in numbers:
        row: Any = instructions.loc[number]
        text = row.sass
        if (cause := source.causes.get(number)) is not None:
            line = instructions["line"][cause]
            where = f" of line {line}" if line and line != row.line else ""
            text += f"   ← waits for {instructions['opcode'][cause]} at {instructions['offset'][cause]:#x}{where}"
        yield _line(f"{row.offset:#x}", row, text, style="dim")


def _line(place: str, cost: Any, text: str, style: str = "") -> Line:
    """Return one line of output; a line of source without instructions has no cost."""
    if cost is None:
        return Line(f"{place:>6}  {'':>{BAR + 7}}  {'':>12}  {'':<19} {text}".rstrip(), "dim")
    share = f"{draw_bar(cost.share)} {cost.share:>6.1%}" if cost.stalled else ""
    heat = "bold red" if cost.share >= HOT else "yellow" if cost.share >= WARM else style
    return Line(f"{place:>6}  {share:>{BAR + 7}}  {cost.executed:>12,}  {cost.reason:<19} {text}".rstrip(), heat)


def draw_bar(share: float) -> str:
    """Return a bar in eighths of a column."""
    whole, eighths = divmod(round(share * BAR * 8), 8)
    return f"{'█' * whole}{' ▏▎▍▌▋▊▉'[eighths] if eighths else ''}".ljust(BAR)


def as_data(source: KernelSource) -> dict[str, Any]:
    """Return everything as plain data: shares from 0 to 1, executions in warps, offsets in bytes."""
    counters = source.counters
    facts = ("name", "kernel", "ordinal", "cache_mode", "duration_ns", "has_lines", "stalled", "doubts")
    instructions = source.instructions.to_dict("records")
    for number, row in enumerate(instructions):
        row["waits_for"] = source.causes.get(number)
    return {
        **{name: getattr(source, name) for name in facts},
        **{name: getattr(counters, name) for name in ("sample_count", "interval_cycles", "dropped_bytes")},
        "stored_files": list(source.texts),
        "lines": source.lines.to_dict("records"),
        "instructions": instructions,
    }
