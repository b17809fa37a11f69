"""Families written for a test, and the texts of their variants."""

import shutil
from pathlib import Path

from cuprof.families.fingerprint import source_text
from cuprof.families.origin import load_family

HEAD = """
import functools
import math
from pathlib import Path
from cuprof.families import Array, Axis, Family, Launch, Program, Signature, Tolerance, Tunable

def make_family():
    return Family(
        name="sample", title="sample", axes=(Axis("n", default=8, low=1, high=64),),
        signature=lambda problem: Signature({}, {}), generate=lambda problem, rng: {},
        reference=lambda problem, inputs: {}, tolerance=lambda problem, inputs, reference: Tolerance(),
        useful_bytes=lambda problem: 0,
    )

family = make_family()
"""


def texts(folder: Path, body: str, **files: str) -> dict[str, str]:
    """Return the source text of every variant of a family with this body."""
    folder = folder / "sample"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "family.py").write_text(HEAD + body, encoding="utf-8")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    family = load_family(folder)
    return {name: source_text(family, variant) for name, variant in family.variants.items()}


VARIANT = """
@family.cpu("a")
def a(problem, tune, inputs, outputs):
    return lambda: {body}
"""


def changes(folder: Path, body: str, old: str, new: str, **files: str) -> bool:
    """Return whether replacing `old` by `new`, anywhere, changes the text of variant a."""
    assert old in body or any(old in text for text in files.values())
    before = texts(folder, body, **files)["a"]
    after = texts(folder, body.replace(old, new), **{name: text.replace(old, new) for name, text in files.items()})["a"]
    return before != after
