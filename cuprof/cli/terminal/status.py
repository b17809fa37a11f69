"""What `cuprof status` prints: a line a sweep, its stations, its failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuprof.cli.terminal.table import Column, Line, Row, layout
from cuprof.cli.terminal.text import format_duration
from cuprof.core.visible import visible
from cuprof.core.wording import describe_tried
from cuprof.results.progress import Progress

COLUMNS = (
    Column("station", "left"),
    Column("host", "left"),
    Column("pid"),
    Column("done"),
    Column("seen"),
    Column("doing", "left"),
)
DOING = {"silent": "silent", "gone": "its process has ended"}


def status_lines(found: Sequence[Progress], width: int) -> list[Line]:
    """Return the lines of some sweeps, for a terminal of so many columns."""
    if not found:
        return [Line("no sweep is stored")]
    return [line for each in found for line in _lines(each, width)]


def _lines(sweep: Progress, width: int) -> Iterator[Line]:
    tried = describe_tried(sweep.done, sweep.looked_again)
    parts = [tried if sweep.is_search else f"{sweep.done} of {sweep.planned} trials"]
    if sweep.reused:
        parts.append(f"{sweep.reused} stored before")
    if sweep.failed:
        parts.append(f"{sweep.failed} failed")
    parts.append(f"{format_duration(sweep.running_s)} since it began")
    if sweep.state == "running" and sweep.seconds_left is not None:
        parts.append(f"about {format_duration(sweep.seconds_left)} left")
    yield Line(visible(f"sweep {sweep.sweep_id} ({sweep.name}): {sweep.state}, {', '.join(parts)}"), "bold")
    present = [station for station in sweep.stations if station.state != "left"]
    taken = ": others take its trials" if any(station.state == "working" for station in present) else ""
    if present and sweep.state != "finished":
        rows = [
            Row(
                (
                    station.name,
                    station.host,
                    str(station.process_id),
                    str(station.done),
                    f"{format_duration(max(station.silent_s, 0.0))} ago",
                    DOING[station.state] + taken
                    if station.state in DOING
                    else station.doing or ("–" if station.done else "nothing yet"),
                ),
                "" if station.state == "working" else "dim",
            )
            for station in present
        ]
        yield from layout(COLUMNS, rows, width)
    if sweep.state in ("interrupted", "abandoned"):
        yield Line("nobody works on it; the same command goes on where it stopped")
    if sweep.is_outdated:
        yield Line("its trials have identities of an earlier version: they stay readable, and no sweep reuses them")
    for label, message in sweep.failures:
        yield Line(visible(f"failed: {label}: {message}", keep=""))
