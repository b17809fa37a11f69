"""`cuprof init`: make a project of one's own, with an example family that runs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from cuprof.cli.arguments import CommandParser
from cuprof.core.errors import UsageError
from cuprof.core.project import MARKER
from cuprof.core.text import quote_path

TEMPLATE = Path(__file__).resolve().parent / "template"
RENAMED = {"gitignore": ".gitignore"}
"""Files that carry another name in the template, so that they do not act there."""

EMPTY_FOLDERS = ("db", "experiments", "reports")

PARSER = CommandParser(
    "init",
    "Make a project of your own: an example family in kernels/, and conf/, db/, experiments/, reports/.",
    "  cuprof init my-kernels\n  cuprof init .",
)
PARSER.add_argument("folder", metavar="DIR", help="folder of the project; made when it is not there")


def main(argv: Sequence[str]) -> None:
    """Make the project and say what to do next."""
    arguments = PARSER.parse_args(argv)
    if not arguments.folder:  # a variable that is not set; Path("") would be the current folder
        raise UsageError("the name is empty; write . for the current folder")
    folder = Path(arguments.folder)
    print(f"made {len(make_project(folder))} files in {folder}\nnext:")
    if folder.resolve() != Path.cwd():
        print(f"  cd {quote_path(str(folder))}")
    print("  cuprof sweep experiment=scale")


def make_project(folder: Path) -> list[Path]:
    """Write the example project into `folder` and return the files made; existing files are never written over.

    Raises:
        UsageError: the folder is a project already, holds a file that would be written over, or cannot be written.
    """
    if (folder / MARKER).exists():
        raise UsageError(f"{folder} is a cuprof project already ({MARKER} is there)")
    targets = {}
    for source in sorted(path for path in TEMPLATE.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        relative = source.relative_to(TEMPLATE)
        targets[source] = folder / relative.with_name(RENAMED.get(relative.name, relative.name))
    for target in targets.values():
        if target.exists():
            raise UsageError(f"{target} is there already; choose another folder, or move the file away")
    try:
        for source, target in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        for name in EMPTY_FOLDERS:
            (folder / name).mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the project in {folder}: {error.strerror or error}") from None
    return list(targets.values())
