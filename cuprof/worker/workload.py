"""One problem with its inputs and what is right for them, as a family's functions make them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuprof.family import Arrays, Family, Signature, Tolerance
from cuprof.worker.check import check_tolerance
from cuprof.worker.messages import Job


@dataclass(frozen=True)
class Workload:
    """One problem with its inputs and what is right for them."""

    family: Family
    signature: Signature
    inputs: Arrays
    reference: Arrays
    tolerance: Tolerance
    seed: int

    @classmethod
    def make(cls, family: Family, job: Job) -> Workload:
        """Draw inputs from the job's seed and compute the reference.

        Raises:
            ValueError: inputs or reference do not match the family's own signature, or a function of the family
                returns another type than it must.
        """
        signature = family.signature(job.problem)
        _require(signature, Signature, family, "signature", "a Signature")
        inputs = family.generate(job.problem, np.random.default_rng(job.seed))
        _require(inputs, Mapping, family, "generate", "a dict of arrays by input name")
        for name, spec in signature.inputs.items():
            array = inputs.get(name)
            if array is None or _shape(array) != spec.shape or array.dtype != np.dtype(spec.dtype):
                raise ValueError(
                    f"generate() gave input {name} as {_describe(array)}, "
                    f"signature() says {spec.dtype} of shape {spec.shape}"
                )
        inputs = {name: np.asarray(array, order="C") for name, array in inputs.items()}
        with read_only(inputs):
            reference = family.reference(job.problem, inputs)
        _require(reference, Mapping, family, "reference", "a dict of arrays by output name")
        for name, spec in signature.outputs.items():
            if _shape(reference.get(name)) != spec.shape:
                raise ValueError(
                    f"reference() gave output {name} as {_describe(reference.get(name))}, "
                    f"signature() says shape {spec.shape}"
                )
        with read_only(inputs):
            tolerance = family.tolerance(job.problem, inputs, reference)
        _require(tolerance, Tolerance, family, "tolerance", "a Tolerance")
        check_tolerance(tolerance, "the family's tolerance()")
        return cls(family, signature, inputs, reference, tolerance, job.seed)


def _require(returned: object, kind: type, family: Family, function: str, wanted: str) -> None:
    """Raise ValueError where a function of the family returned something of another type."""
    if not isinstance(returned, kind):
        found = "None" if returned is None else f"a {type(returned).__name__}"
        raise ValueError(f"family {family.name}: {function}() returned {found}, and must return {wanted}")


@contextmanager
def read_only(arrays: Arrays) -> Iterator[None]:
    """Keep the arrays from being written to: what a reference changed in place would be what the variants are given."""
    writable = [array for array in arrays.values() if array.flags.writeable]
    try:
        for array in writable:
            array.setflags(write=False)
        yield
    except ValueError as error:
        if "read-only" in str(error):
            raise ValueError("reference() or tolerance() writes into the inputs; let it work on a copy") from error
        raise
    finally:
        for array in writable:
            array.setflags(write=True)


def _shape(array: Any) -> tuple[int, ...] | None:
    return array.shape if isinstance(array, np.ndarray | np.generic) else None


def _describe(array: Any) -> str:
    if array is None:
        return "missing"
    shape = _shape(array)
    return f"a {type(array).__name__}, not an array" if shape is None else f"{array.dtype} of shape {shape}"
