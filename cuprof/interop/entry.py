"""A definition as a family: `cuprof.define`, and the file that calls it, which a command writes."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

from cuprof.core.errors import UsageError
from cuprof.core.project import find_project
from cuprof.families import Family
from cuprof.families.loader import FAMILY_FILE
from cuprof.interop.files import find_files, write_made
from cuprof.interop.schema import parse_solution, read_definition
from cuprof.interop.task import Task

TEXT = '''"""Definition {title}, as a family."""

import cuprof

family = cuprof.define({path!r})
'''


FOLDER_TEXT = '''"""Definition {title}, as a family."""

from pathlib import Path

import cuprof

family = cuprof.define(Path(__file__).parent)
'''


def define(path: str | Path) -> Family:
    """Return the family of a definition of FlashInfer-Bench or SOL-ExecBench: `family = cuprof.define(PATH)`.

    Args:
        path: the definition's JSON, its folder, or the folder of a trace set with one definition.

    Raises:
        UsageError: a file of it cannot be read, or asks for what is not taken in.
    """
    return Task(find_files(Path(path))).make_family()


def enter(family: Family, text: str) -> None:
    """Add a solution, given as JSON, to the family of its definition: what a file that is judged does."""
    task = getattr(family.generate, "__self__", None)
    if not isinstance(task, Task):
        raise UsageError(f"family {family.name} is of no definition, so that no solution in JSON is for it")
    variant = task.make_variant(parse_solution(text, task.definition), family.variants)
    family.variants[variant.name] = variant


def write_candidate(solution: Path, folder: Path) -> Path:
    """Write the Python file that adds a solution to the family of its definition; return its path."""
    file = folder / f"{_plain(solution.stem)}.py"
    text = solution.read_text(encoding="utf-8")
    file.write_text(f"import cuprof.interop\n\ncuprof.interop.enter(family, {text!r})\n", encoding="utf-8")
    return file


def write_folder(word: str) -> Path:
    """Write a definition with its workloads and their tensors into a folder, which is a family by itself; return it."""
    files = find_files(Path(word))
    task = Task(replace(files, solutions=()))
    folder = find_project().made_families / _plain(task.definition.name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FAMILY_FILE).write_text(FOLDER_TEXT.format(title=task.definition.name), encoding="utf-8")
    (folder / "definition.json").write_bytes(files.definition.read_bytes())
    (folder / "workload.jsonl").write_bytes(b"\n".join(each.read_bytes() for each in files.workloads))
    for tensors in task.tensors:
        (folder / tensors).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(files.root / tensors, folder / tensors)
    return folder


def write_family(word: str) -> Path:
    """Write the file that is the family of a definition, into the project; return its path."""
    files = find_files(Path(word))
    name = read_definition(files.definition).name
    return write_made(f"{_plain(name)}.py", TEXT.format(title=name, path=str(files.definition)))


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name)
