"""A definition as a family: `cuprof.define`, and the file that calls it, which a command writes."""

from __future__ import annotations

import re
from pathlib import Path

from cuprof.definitions.files import find_files
from cuprof.definitions.schema import read_definition
from cuprof.definitions.task import Task
from cuprof.family import Family
from cuprof.project import find_project

TEXT = '''"""Definition {title}, as a family."""

import cuprof

family = cuprof.define({path!r})
'''


def define(path: str | Path) -> Family:
    """Return the family of a definition of FlashInfer-Bench or SOL-ExecBench: `family = cuprof.define(PATH)`.

    Args:
        path: the definition's JSON, its folder, or the folder of a trace set with one definition.

    Raises:
        UsageError: a file of it cannot be read, or asks for what is not taken in.
    """
    return Task(find_files(Path(path))).make_family()


def write_family(word: str) -> Path:
    """Write the file that is the family of a definition, into the project; return its path."""
    files = find_files(Path(word))
    name = read_definition(files.definition).name
    file = find_project().made_families / f"{re.sub(r'[^A-Za-z0-9]', '_', name)}.py"
    text = TEXT.format(title=name, path=str(files.definition))
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return file
