"""`cuprof backup` and `cuprof merge`: copy the database while sweeps go on writing; several databases into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from cuprof.cli.arguments import CommandParser
from cuprof.cli.output import Line, emit, show
from cuprof.core.errors import UsageError
from cuprof.core.project import MARKER, find_project
from cuprof.core.text import count
from cuprof.engine.merging import merge_source
from cuprof.store.backup import back_up
from cuprof.store.connection import same_place
from cuprof.store.merge import Merged
from cuprof.store.source import open_source
from cuprof.store.store import Store

BACKUP = CommandParser(
    "backup",
    "Copy the database to a file of its own, as it is at one moment; sweeps may go on writing. Copying the file\n"
    "itself can leave out what is still in the -wal file beside it. For PostgreSQL there is pg_dump.",
    """\
  cuprof backup /media/disk/cuprof.sqlite
  cuprof backup "backup-$(date +%F).sqlite"
  cuprof query best --store sqlite:////media/disk/cuprof.sqlite""",
    store=True,
    json=True,
)
BACKUP.add_argument("file", metavar="FILE", type=Path, help="the copy; it must not exist")
BACKUP.add_argument("--force", action="store_true", help="replace the file, once the copy is complete")

MERGE = CommandParser(
    "merge",
    "Take what other databases hold into this project's, or the one of --store. What is here already is not taken\n"
    "again. Rows that cuprof cannot have measured (impossible times, future dates, unknown words) are refused and\n"
    "counted. Otherwise all of a database is taken or nothing, and nothing in it is changed.",
    """\
  cuprof merge node1/db/cuprof.sqlite node2/db/cuprof.sqlite
  cuprof merge sqlite:////media/disk/old.sqlite --store postgresql+psycopg://cuprof@db.example/cuprof
  cuprof merge postgresql+psycopg://cuprof@db.example/cuprof --store sqlite:///all.sqlite""",
    store=True,
    json=True,
)
MERGE.add_argument("databases", metavar="DATABASE", nargs="+", help="an SQLite file, or any SQLAlchemy URL")


def main_backup(argv: Sequence[str]) -> None:
    """Write the copy and print its size and contents."""
    arguments = BACKUP.parse_args(argv)
    if arguments.file.name == MARKER:
        raise UsageError(f"{arguments.file} is the file of a project's settings; name another file")
    copy = back_up(arguments.store, arguments.file, overwrite=arguments.force)
    record = {"backup": str(arguments.file), "bytes": copy.size_bytes, "sweeps": copy.sweeps, "runs": copy.runs}
    size = f"{copy.size_bytes / 2**20:.1f} MiB"
    emit(record, arguments.json, [Line(f"{arguments.file}: {size}, sweeps: {copy.sweeps}, runs: {copy.runs}")])


def main_merge(argv: Sequence[str]) -> None:
    """Take in one database after the other and say what was new."""
    arguments = MERGE.parse_args(argv)
    sources = [each if "://" in each else f"sqlite:///{each}" for each in arguments.databases]  # whatever its ending
    if any(same_place(source, arguments.store) for source in sources):
        raise UsageError("a database cannot be merged into itself; name another one, or another --store")
    told, store = [], None
    with ExitStack() as stack:
        for url in sources:
            with open_source(url) as source:  # ahead of our own, which is not made for one that is refused
                store = store or stack.enter_context(Store.open(arguments.store))
                merged = merge_source(source, store, find_project().artifacts)
            added = {f"{name}s": merged.added[name] for name in ("sweep", "trial", "run", "profile")}
            added["reports"] = merged.reports
            rest = {"missing_reports": merged.missing, "refused": merged.refused, "notes": merged.notes}
            told.append({"database": source.place, **added, **rest})
            if not arguments.json:
                show(*map(Line, _describe(source.place, merged, added)))
    if arguments.json:
        emit(told, as_json=True)


def _describe(place: str, merged: Merged, added: Mapping[str, int]) -> Iterator[str]:
    said = ", ".join(f"{what}: {number}" for what, number in added.items() if number)
    yield f"{place}: {said or 'nothing new'}"
    if merged.missing:
        yield f"  reports of its counters that are not in the folder artifacts beside it: {merged.missing}"
    for fault, number in merged.refused.items():
        table, _, why = fault.partition(": ")
        yield f"  refused, with everything that belongs to it: {count(number, 'row')} of {table}, {why}"
    yield from (f"  {note}" for note in merged.notes)
