"""`cuprof backup`: copy the database while sweeps go on writing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cuprof.cli.arguments import CommandParser
from cuprof.cli.output import emit
from cuprof.cli.table import Line

EXAMPLES = """\
examples:
  cuprof backup /media/disk/cuprof.sqlite
  cuprof backup "backup-$(date +%F).sqlite"
  cuprof query best --store sqlite:////media/disk/cuprof.sqlite"""


PARSER = CommandParser(
    "backup",
    "Copy the database to a file of its own, as it is at one moment; sweeps may go on writing. Copying the file\n"
    "itself can leave out what is still in the -wal file beside it. For PostgreSQL there is pg_dump.",
    EXAMPLES,
    store=True,
    json=True,
)
PARSER.add_argument("file", metavar="FILE", type=Path, help="the copy; it must not exist")
PARSER.add_argument("--force", action="store_true", help="replace the file, once the copy is complete")


def main(argv: Sequence[str]) -> int:
    """Write the copy and print its size and contents."""
    arguments = PARSER.parse_args(argv)
    from cuprof.store.backup import back_up

    copy = back_up(arguments.store, arguments.file, overwrite=arguments.force)
    record = {"backup": str(copy.file), "bytes": copy.size_bytes, "sweeps": copy.sweeps, "runs": copy.runs}
    size = f"{copy.size_bytes / 2**20:.1f} MiB"
    emit(record, arguments.json, [Line(f"{copy.file}: {size}, sweeps: {copy.sweeps}, runs: {copy.runs}")])
    return 0
