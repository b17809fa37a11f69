"""The texts in a trial's identity: the variant's own source, and the family's contract.

A kernel variant's text is its source file (see `cuprof.families.sources`). Its Python function does not count: the
`Program` that it returns holds the launches, macros and buffers. The text of a library or CPU variant is its function
and everything that it uses from the family's files. Names of files do not count; comments do.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cuprof.core.errors import FamilyError
from cuprof.families.functions import function_text
from cuprof.families.includes import expand_text
from cuprof.families.model import Family, Variant
from cuprof.families.sources import TRITON, read_variant_source

CONTRACT = ("signature", "generate", "reference", "tolerance")
"""The functions that make the inputs and say which results are right."""
SAID = ("in_place", "any_order", "at_most", "error_rate")
"""Settings of the family that decide this too, if they differ from the default."""


def source_text(family: Family, variant: Variant) -> str:
    """Return the text of one variant; editing another variant does not change it.

    Raises:
        FamilyError: a file is missing or unreadable, or the family was not loaded from a folder.
    """
    place = _place_of(family)
    folder = place.parent if place.is_file() else place
    if variant.text:
        text = expand_text(variant.text, folder, variant.name)
    elif variant.kind == "kernel":
        text = read_variant_source(folder / (variant.source or ""), folder)
    else:
        text = function_text(variant.content or variant.make, place)
    remark = "#" if Path(variant.source or "").suffix == TRITON else "//"
    return text + "".join(f"\n{remark} file of SHA-256 {_hash_file(folder / file)}\n" for file in variant.files)


def contract_text(family: Family, variant: Variant | None = None) -> str:
    """Return the text of the functions in `CONTRACT` with all that they use, and the settings in `SAID`.

    Args:
        family: loaded from a folder.
        variant: its own tolerance, if it has one, replaces the family's.
    """
    place = _place_of(family)
    functions = dict(family.contract) or {part: getattr(family, part) for part in CONTRACT}
    if variant is not None and variant.tolerance is not None:
        functions["tolerance"] = variant.tolerance
    if family.verify is not None:
        functions.setdefault("verify", family.verify)
    said = {part: getattr(family, part) for part in SAID if getattr(family, part) != getattr(Family, part)}
    texts = [f"# {part}\n{function_text(function, place)}" for part, function in functions.items()]
    return "\n".join([*texts, *(f"# {part}\n{value!r}\n" for part, value in said.items())])


def _place_of(family: Family) -> Path:
    if family.folder is None:
        raise FamilyError(f"family {family.name} has no folder; load it with cuprof.families.origin.load_family")
    return family.path or family.folder


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise FamilyError(f"{path}, which a variant names, cannot be read: {error.strerror or error}") from None


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
