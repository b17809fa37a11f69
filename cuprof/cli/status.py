"""`cuprof status`: how far sweeps are, from another terminal or another machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from cuprof.cli.arguments import CommandParser, number
from cuprof.cli.labels import format_duration
from cuprof.cli.output import Line, Part, Table, emit, print_message, show
from cuprof.core.errors import SelectionError, UnreachableStoreError
from cuprof.core.text import describe_tried
from cuprof.results.progress import Progress, find_log, list_progress
from cuprof.store.store import Store

SECONDS = number(0.0, 86400.0, "number of seconds from 0 to 86400", float)
EXAMPLES = """\
  cuprof status
  cuprof status --every 10
  cuprof status --log last_warp
  cuprof status --sweep 12 --json
  cuprof status --store postgresql+psycopg://cuprof@db.example/cuprof"""

PARSER = CommandParser(
    "status",
    "Say of sweeps that are not finished what runs where, what has failed, and how long they still take; where\n"
    "there is none, what became of the newest.",
    EXAMPLES,
    store=True,
    json=True,
)
PARSER.add_argument("--sweep", metavar="ID", type=int, help="this sweep alone")
PARSER.add_argument("--every", metavar="SECONDS", type=SECONDS, default=0.0, help="again and again until it is done")
PARSER.add_argument("--log", metavar="VARIANT", default="", help="why it failed last: the whole log")


def main(argv: Sequence[str]) -> None:
    """Print how far sweeps are, once or repeatedly until they are done."""
    arguments = PARSER.parse_args(argv)
    if arguments.log:
        with Store.reading(arguments.store) as connection:
            failure = find_log(connection, arguments.log)
        if failure is None:
            said = f"no failure of {arguments.log!r} has left a log; cuprof query failures lists what failed"
            raise SelectionError(said)
        label, state, message, log = failure
        show(Line(f"{label}: {state}: {message}", "bold"), *map(Line, log.splitlines()))
        return
    found = None
    while found is None or (arguments.every and any(each.state == "running" for each in found)):
        if found is not None:
            time.sleep(arguments.every)
        try:
            with Store.reading(arguments.store) as connection:
                found = list_progress(connection, arguments.sweep)
        except UnreachableStoreError as error:
            if found is None:
                raise
            print_message(str(error))  # whoever watches waits for it as the sweeps do
            continue
        if arguments.sweep is not None and not found:
            raise SelectionError(f"there is no sweep {arguments.sweep}; cuprof query sweeps lists them")
        emit(found, arguments.json, status_parts(found))


def status_parts(found: Sequence[Progress]) -> list[Part]:
    """Return a line for each sweep, its stations and its failures."""
    return [part for each in found for part in _sweep_parts(each)] or [Line("no sweep is stored")]


def _sweep_parts(sweep: Progress) -> Iterator[Part]:
    tried = describe_tried(sweep.done, sweep.looked_again)
    parts = [tried if sweep.is_search else f"{sweep.done} of {sweep.planned} trials"]
    others = {"stored before": sweep.reused, "failed": sweep.failed, "skipped": sweep.skipped}
    parts += [f"{number} {what}" for what, number in others.items() if number]
    parts.append(f"{format_duration(sweep.running_s)} since it began")
    if sweep.state == "running" and sweep.seconds_left is not None:
        parts.append(f"about {format_duration(sweep.seconds_left)} left")
    yield Line(f"sweep {sweep.sweep_id} ({sweep.name}): {sweep.state}, {', '.join(parts)}", "bold")
    present = [station for station in sweep.stations if station.state != "left"]
    if present and sweep.state != "finished":
        taken = ": others take its trials" if any(station.state == "working" for station in present) else ""
        doings = {"silent": f"silent{taken}", "gone": f"its process has ended{taken}"}
        rows = [
            (
                *(station.name, station.host, str(station.process_id), str(station.done)),
                f"{format_duration(max(station.silent_s, 0.0))} ago",
                doings.get(station.state) or station.doing or ("–" if station.done else "nothing yet"),
            )
            for station in present
        ]
        styles = ["" if station.state == "working" else "dim" for station in present]
        numbers = ("pid", "done", "seen")
        yield Table(("station", "host", *numbers, "doing"), rows, numbers, styles)
    if sweep.state in ("interrupted", "abandoned"):
        yield Line("no process works on it; the same command goes on where it stopped")
    if sweep.is_outdated:
        yield Line("its trials have identities of an earlier version: they stay readable, and no sweep reuses them")
    for label, message in sweep.failures:
        yield Line(f"failed: {label}: {message}")
