"""The texts that decide a trial's identity: a variant's own source, and the family's contract.

A kernel variant's text is that of its source file (see `cuprof.families.sources`). What its Python function decides
(launches, macros, buffers) is in the `Program` it returns, so the function's text is no part. The text of a library or
CPU variant is that of its function and of all it uses from files in the family's folder. Names of files are no part of
any text; comments are.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from pathlib import Path

from cuprof.core.errors import FamilyError
from cuprof.families.functions import function_text
from cuprof.families.includes import expand_text
from cuprof.families.model import Family, Variant
from cuprof.families.sources import TRITON, read_variant_source

CONTRACT = ("signature", "generate", "reference", "tolerance")
"""The functions that decide what a variant is given and what counts as right."""
SAID = ("in_place", "any_order", "at_most", "error_rate")
"""What else decides that, where it is said."""


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
    """Return the text of the functions in `CONTRACT` and of all they use from the folder, and what is `SAID` besides.

    Args:
        family: loaded from a folder.
        variant: its own tolerance, where it has one, stands in for the family's.
    """
    place = _place_of(family)
    functions = dict(family.contract) or {part: getattr(family, part) for part in CONTRACT}
    if variant is not None and variant.tolerance is not None:
        functions["tolerance"] = variant.tolerance
    if family.verify is not None:
        functions.setdefault("verify", family.verify)
    defaults = {each.name: each.default for each in fields(Family)}
    said = {part: getattr(family, part) for part in SAID if getattr(family, part) != defaults[part]}
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
