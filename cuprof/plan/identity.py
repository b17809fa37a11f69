"""The content identity of a trial: the same content has the same identity on every machine and in every run.

An identity is the first 32 hexadecimal digits of the SHA-256 of two lines of canonical JSON (keys sorted, ASCII, no
spaces), joined by a line feed. The first is an object of what all trials of a variant on a device share:

    version    IDENTITY_VERSION
    family     the family's name
    variant    the variant's name
    backend    the back end's name
    source     SHA-256 of the variant's source text (cuprof.families.fingerprint.source_text)
    contract   SHA-256 of the contract text (signature, inputs, reference, and the tolerance that the variant has)
    device     DeviceFacts.identity, or null where no device of the back end is there
    libraries  installed version of each module that the variant requires
    headers    versions of CUDA's headers; only where a CUDA source includes something in angle brackets
    compiler   version of the compiler that the variant names; only where it names one

The second is an object of the trial itself:

    problem    coordinate by axis
    tunables   coordinate by tunable
    program    for a kernel variant its steps, macros, options, buffers, results, constants and set-up; else null

File names, the host and the one physical card are not part of it. Neither is how a trial is timed: a timing method's
settings identify a *timing* of the trial (`Timing.method`, of `cuprof.worker.method`). So timings by several methods
and the counters of one trial share one identity.

In a program a buffer argument is ["buffer", name]; a Python number ["int", "5"] or ["float", "0.5"]; a NumPy scalar
[its dtype, its value as text], since int32 5 and int64 5 are two arguments; a struct [its fields, its bytes].
Macros are compared as text, as the compiler sees them, and in the order of their names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from cuprof.backends.registry import get_spec
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts
from cuprof.families.fingerprint import hash_text
from cuprof.families.model import Family, Variant
from cuprof.families.program import Program
from cuprof.families.toolchain import find_headers, get_compiler, get_version, uses_headers
from cuprof.plan.model import Plan

IDENTITY_VERSION = 2
"""Raise it whenever the hashed content changes, so that identities of two versions never match.

Version 2: the text of Python code is made of live functions, classes and values, and names no module of cuprof's."""

DIGITS = 32


class Identifier:
    """Give identities to the trials of one variant on one device.

    Args:
        device: what the trials run on, or None where there is no device.
        source: the variant's text, of `cuprof.families.fingerprint`.
        contract_hash: SHA-256 of the contract's text.
    """

    def __init__(
        self, family: Family, variant: Variant, device: DeviceFacts | None, source: str, contract_hash: str
    ) -> None:
        self.source_hash = hash_text(source)
        has_headers = get_spec(variant.backend).uses_cuda_headers and uses_headers(source)
        shared = {
            "version": IDENTITY_VERSION,
            "family": family.name,
            "variant": variant.name,
            "backend": variant.backend,
            "source": self.source_hash,
            "contract": contract_hash,
            "device": None if device is None else dict(device.identity),
            "libraries": {module: get_version(module) for module in sorted({*variant.requires})},
            **({"headers": version} if has_headers and (version := find_headers().version) else {}),
            **({"compiler": get_compiler(variant.compiler).version} if variant.compiler else {}),
        }
        self._shared = hashlib.sha256(canonical_json(shared).encode() + b"\n")

    def identify(self, problem: Point, tunables: Point, program: Program | None) -> str:
        """Return the identity of one trial; `program` is None for anything but a kernel variant."""
        described = None if program is None else program.describe()
        content = {"problem": dict(problem.items()), "program": described, "tunables": dict(tunables.items())}
        digest = self._shared.copy()
        digest.update(canonical_json(content).encode())
        return digest.hexdigest()[:DIGITS]


def plan_hash(plan: Plan, methods: Mapping[str, str]) -> str:
    """Return the hash of a plan's trials, in their order, and of the methods they are timed with, 32 digits.

    Args:
        methods: measure → method hash.
    """
    content = {
        "version": IDENTITY_VERSION,
        "family": plan.trials[0].family,
        "trials": [trial.identity for trial in plan.trials],
        "methods": dict(methods),
    }
    return hash_content(content)


def hash_content(content: Mapping[str, Any]) -> str:
    """Return the hash of plain data, 32 digits; raise `ValueError` for a number that JSON has no word for."""
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:DIGITS]


canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""Makes JSON that is the same for equal content: keys sorted, ASCII, no spaces. Raises TypeError for anything but plain
data, ValueError for numbers that are not finite."""
