"""A definition as a family: workloads are problems, solutions are variants, its reference gives the right results.

Beside definition.json lie workload*.jsonl and solution*.json (SOL-ExecBench). A trace set (FlashInfer-Bench) has
definitions/OP/NAME.json, solutions/**/NAME/*.json and workloads/OP/NAME.jsonl.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cuprof.core.errors import BuildError, UsageError
from cuprof.core.expression import ExpressionError, compute
from cuprof.core.files import MOST_BYTES, open_regular, read_regular
from cuprof.core.point import Point
from cuprof.core.text import list_first
from cuprof.families import calling
from cuprof.families.arrays import HOMES
from cuprof.families.model import Arrays, Axis, Family, Sample, Signature, Tolerance, Tolerances, Variant, Verdict
from cuprof.families.program import Array
from cuprof.interop import schema
from cuprof.interop.results import FAULTS
from cuprof.interop.schema import DTYPES, Definition, Solution, Source, Spec, Workload, find_inside
from cuprof.interop.solutions import content_of, list_modules, load_function, takes_outputs

VERSION = 1
"""Raise this when solutions receive different arguments, or when different results count as right."""
REFERENCE = "reference"
"""The variant made of the definition's own reference, the baseline of solutions."""
MOST_SOLUTIONS = 5_000
MOST_SOLUTION_BYTES = 4 * MOST_BYTES
"""Of all solutions of a definition, which are held in memory: 50 kB for each of the most solutions."""
UNBOUNDED = 1e300
"""The bound of a single element where only a share of all has to be near."""

LARGEST_DRAWN = {"int8": 128, "int16": 1024, "int32": 1024, "int64": 1024, "uint8": 255}
"""Random whole numbers are drawn between minus this and this, as both benchmarks draw them."""
SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
    "BOOL": "bool",
}  # fmt: skip
MOST_HEADER_BYTES = 16 << 20
"""A hundred thousand tensors; the library safetensors takes headers of 100 MB."""


class StoredTensor(msgspec.Struct):
    """A tensor in the header of a safetensors file: where its bytes begin and end, counted from the header's end."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class DefinitionFamily:
    """Draw inputs, compute the right results, and bind solutions to a session's arrays, as both benchmarks do.

    Args:
        path: the definition's file, or a folder with one definition.
        with_solutions: read the solutions beside it; a judge sees the candidates alone.

    Raises:
        UsageError: a file cannot be read, or asks for something unsupported.
    """

    def __init__(self, path: Path, *, with_solutions: bool = True) -> None:
        self.path, self.root, self.traces, solutions = find_files(path, with_solutions=with_solutions)
        self.files = (self.path, *self.traces, *solutions)
        self.definition = definition = schema.read(self.path, Definition)
        self.workloads = schema.read_workloads(self.traces, definition)
        read = [schema.read(path, Solution) for path in solutions]
        self.solutions = [each for each in read if each.definition == definition.name]
        if not self.workloads or (read and not self.solutions):
            what = "solution" if self.workloads else "workload"
            raise UsageError(f"{self.path}: no {what} names definition {definition.name}")
        self.name = re.sub(r"\W", "_", definition.name)
        self.reference = self._make_own("run")
        modules = list_modules(self.reference)
        self.changed = definition.list_changed()
        # Both benchmarks give tensors on the device; a judge sees no solution but the candidate.
        self.on_device = "numpy" not in modules or not {"torch", "triton", "cupy"}.isdisjoint(modules)
        self._made_numbers: dict[Point, dict[str, Any]] = {}

    def make_family(self) -> Family:
        """Return the family; a loader sets where it lies."""
        points = list(self.problems)
        choices = {name: tuple(dict.fromkeys(point[name] for point in points)) for name in points[0]}
        shares = any(each.bounds.required_matched_ratio < 1 for each in self.workloads)
        content = partial(_stand_for, VERSION, self._content())
        family = Family(
            name=self.name,
            title=self.definition.description or self.definition.name.replace("_", " "),
            axes=tuple(Axis(name, values[0], choices=values) for name, values in choices.items()),
            signature=self.signature,
            generate=self.generate,
            reference=self.compute_reference,
            tolerance=self.tolerate,
            useful_bytes=lambda problem: self.signature(problem).nbytes,
            constraint=self.explain_absence,
            presets={each.uuid: dict(point) for point, each in self.problems.items()},
            baseline=REFERENCE,
            in_place=self.changed,
            verify=self.judge if shares else None,
            contract={"definition": content, **({"verify": content} if shares else {})},
            usual={"problem": {"preset": tuple(each.uuid for each in self.problems.values())}},
        )
        for solution in (self.reference, *self.solutions):
            variant = self.make_variant(solution, family.variants)
            family.variants[variant.name] = variant
        family.add_solution = partial(self._add_solution, family)
        return family

    @property
    def tensors(self) -> dict[str, Path]:
        """Return the files of tensors by the names, relative to the root, that workloads give them; sorted."""
        names = {one.path for each in self.workloads for one in each.inputs.values() if one.path}
        return {name: find_inside(self.root, name) for name in sorted(names)}

    @cached_property
    def problems(self) -> dict[Point, Workload]:
        """Return the workloads by their coordinates: the variable axes, and `workload` where these leave several."""
        plain = {Point(each.axes): each for each in self.workloads}
        if len(plain) == len(self.workloads) and self.workloads[0].axes:
            return plain
        return {Point(each.axes, workload=each.uuid): each for each in self.workloads}

    def sample(self, problem: Point) -> Sample:
        """Return the arrays; numbers among the inputs are found when a function is bound."""
        inputs, outputs = self.definition.list_arrays(self.problems[problem].axes)
        changed = {name: inputs.pop(name) for name in self.changed}
        home = HOMES["torch" if self.on_device else "numpy"]
        return Sample(
            Signature(inputs, {**outputs, **changed}), {}, tuple(self.definition.inputs), home.name, home.backend
        )

    def signature(self, problem: Point) -> Signature:
        """Return the arrays of a problem."""
        return self.sample(problem).signature

    def explain_absence(self, problem: Point) -> str | None:
        """Return why there is no such problem, or None; ignore constraints on what inputs hold."""
        if problem not in self.problems:
            return "no workload has these axes"
        sizes = self.definition.size(self.problems[problem].axes)
        for text in self.definition.constraints or ():
            with suppress(ExpressionError):
                if not compute(text, sizes):
                    return f"not {text}"
        return None

    def generate(self, problem: Point, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return the inputs as the workload says: drawn anew, read from a file, or of the definition's function."""
        workload = self.problems[problem]
        specs, _ = self.definition.list_arrays(workload.axes)
        if workload.is_custom:
            made = self._make_custom(workload, rng)
            return {name: as_declared(made[name], spec) for name, spec in specs.items()}
        return {name: self._draw(workload, name, spec, rng) for name, spec in specs.items()}

    def compute_reference(self, problem: Point, inputs: Arrays) -> dict[str, np.ndarray]:
        """Return what the definition's reference gives for these inputs, floating-point numbers as float64."""
        sample = self.sample(problem)
        bring = HOMES[sample.home].bring
        known = {**self._numbers(problem), **{name: bring(np.array(array)) for name, array in inputs.items()}}
        returned = load_function(self.reference)(*(known[name] for name in sample.arguments))
        found = self.name_results(returned, "the reference")
        expected: dict[str, np.ndarray] = {name: np.ma.masked_array(inputs[name], True) for name in self.changed}
        for name in self.definition.outputs:
            spec = sample.signature.outputs[name]
            wide = "float64" if spec.type.kind not in "biu" else spec.dtype
            expected[name] = as_declared(found[name], Array(spec.shape, wide))
        return expected

    def tolerate(self, problem: Point, inputs: Arrays, expected: Arrays) -> Tolerances:
        """Return the workload's bounds, or the benchmarks' default; a share of the elements `judge` counts."""
        workload = self.problems[problem]
        if workload.bounds.required_matched_ratio < 1:
            cap = workload.bounds.max_error_cap
            return Tolerance(UNBOUNDED if cap is None else cap, 0.0, "the workload's cap on a single element")
        stated = workload.correctness or workload.tolerance
        reason = "as the workload states" if stated else "the benchmarks' default, where a workload states none"
        return Tolerance(workload.bounds.max_atol, workload.bounds.max_rtol, reason)

    def judge(self, problem: Point, inputs: Arrays, outputs: Arrays, expected: Arrays) -> Verdict:
        """Return why too few elements are near the reference, or None."""
        bounds = self.problems[problem].bounds
        for name in self.definition.outputs if bounds.required_matched_ratio < 1 else ():
            right = expected[name]
            error = np.abs(outputs[name].astype(np.float64) - right)
            share = float(np.mean(error <= bounds.max_atol + bounds.max_rtol * np.abs(right))) if right.size else 1.0
            if share < bounds.required_matched_ratio:
                return f"{share:.2%} of {name} is near the reference, and {bounds.required_matched_ratio:.2%} must be"
        return None

    def bind(self, solution: Solution, problem: Point, tunables: Point, inputs: Arrays, outputs: Arrays) -> Any:
        """Return the call to time: a solution's function alone, on a session's arrays."""
        function, sample = load_function(solution), self.sample(problem)
        writes = takes_outputs(solution, function, len(sample.arguments))
        called = replace(sample, arguments=(*sample.arguments, *self.definition.outputs)) if writes else sample
        own = {name: outputs[name] for name in self.definition.outputs}

        def put(returned: Any) -> None:
            if returned is not None or not writes:  # else it has written them
                found, is_own = self.name_results(returned, "the function"), solution is self.reference
                calling.deliver(found, own, sample, "the definition says", of_any_type=is_own)

        returns = not (writes and solution.spec.destination_passing_style)
        numbers = self._numbers(problem)
        return calling.bind(function, called, numbers, {}, {**inputs, **outputs}, put if returns else None)

    def name_results(self, returned: Any, who: str) -> dict[str, Any]:
        """Return what a function returned by the outputs' names: a dict, one value, or as many as there are outputs."""
        outputs = self.definition.outputs
        if isinstance(returned, Mapping):
            found = {name: returned[name] for name in outputs if name in returned}
        else:
            values = list(returned) if isinstance(returned, tuple | list) else [returned]
            found = dict(zip(outputs, values, strict=False)) if len(values) == len(outputs) else {}
        if len(found) != len(outputs):
            raise ValueError(f"{who} returned a {type(returned).__name__}, and not the outputs {', '.join(outputs)}")
        return found

    def make_variant(self, solution: Solution, taken: Mapping[str, Variant]) -> Variant:
        """Return a solution as a variant, with a name that is not taken."""
        plain = re.sub(r"[^A-Za-z0-9_.+-]", "_", solution.name).lstrip("_.+-")[:100] or "solution"
        name = next(each for number in range(10_000) if (each := f"{plain}_{number}" if number else plain) not in taken)
        modules = ["torch"] if self.on_device else []
        with suppress(BuildError):  # a source that is not Python fails the solution's own trials later
            modules += list_modules(solution)
        return Variant(
            name,
            "cuda" if self.on_device else "cpu",
            "library" if self.on_device else "cpu",
            partial(self.bind, solution),
            solution.description or " ".join(filter(None, (solution.spec.language, *solution.spec.languages))),
            requires=tuple(dict.fromkeys(modules)),
            origin=solution.author,
            content=partial(_stand_for, VERSION, content_of(solution)),
        )

    def _add_solution(self, family: Family, file: Path) -> Variant:
        solution = schema.read(file, Solution)
        if solution.definition != self.definition.name:
            raise UsageError(f"solution {solution.name} is of {solution.definition}, and not of {self.definition.name}")
        return self.make_variant(solution, family.variants)

    def _make_own(self, function: str) -> Solution:
        """Return a function of the definition's own source as a solution."""
        spec = Spec(f"reference.py::{function}", destination_passing_style=False)
        return Solution(REFERENCE, self.definition.name, spec, [Source("reference.py", self.definition.reference)])

    def _content(self) -> str:
        """Return the definition, the workloads and the digests of tensors as text."""
        digests = {}
        for name, path in self.tensors.items():
            with open_regular(path) as stream:
                digests[name] = hashlib.file_digest(stream, "sha256").hexdigest()
        return msgspec.json.encode([self.definition, self.workloads, digests], order="deterministic").decode()

    def _draw(self, workload: Workload, name: str, spec: Array, rng: np.random.Generator) -> np.ndarray:
        given = workload.inputs[name]
        if given.type == "safetensors":
            return read_tensor(find_inside(self.root, given.path), given.tensor_key, spec)
        return np.full(spec.shape, given.value).astype(spec.type) if given.type == "scalar" else draw(spec, rng)

    def _make_custom(self, workload: Workload, rng: np.random.Generator) -> Mapping[str, Any]:
        device = importlib.import_module("torch").device("cuda") if self.on_device else "cpu"
        calling.seed_all(rng)
        function = self.definition.custom_inputs_entrypoint or ""
        made = load_function(self._make_own(function))(self.definition.size(workload.axes), device)
        if not isinstance(made, Mapping) or made.keys() != self.definition.inputs.keys():
            raise ValueError(f"{function}() must return a dict of {', '.join(self.definition.inputs)}")
        return made

    def _numbers(self, problem: Point) -> dict[str, Any]:
        """Return the inputs that are numbers, by name: the same with all that is drawn, and in every process."""
        workload, made = self.problems[problem], self._made_numbers
        kinds = {name: DTYPES[one.dtype] for name, one in self.definition.inputs.items() if one.shape is None}
        if workload.is_custom:
            if kinds and problem not in made:
                first = self._make_custom(workload, np.random.default_rng(0))
                made[problem] = {name: first[name] for name in kinds}
            return made.get(problem, {})
        return {
            name: one.value if one.type == "scalar" else draw(Array((), kinds[name]), np.random.default_rng(0)).item()
            for name, one in workload.inputs.items()
            if name in kinds
        }


def draw(spec: Array, rng: np.random.Generator) -> np.ndarray:
    """Return random elements: normal ones, of 8 bits between -2 and 2; whole numbers as `LARGEST_DRAWN` says."""
    kind = str(spec.dtype)
    if kind == "bool":
        return rng.integers(0, 2, spec.shape).astype(bool)
    if kind in LARGEST_DRAWN:
        least = 0 if kind == "uint8" else -LARGEST_DRAWN[kind]
        return rng.integers(least, LARGEST_DRAWN[kind], spec.shape).astype(kind)
    numbers = rng.standard_normal(spec.shape, np.float32 if kind != "float64" else np.float64)
    return np.asarray(np.clip(numbers, -2, 2) if kind.startswith("float8") else numbers).astype(spec.type)


def read_tensor(path: Path, key: str, spec: Array) -> np.ndarray:
    """Return a tensor of a safetensors file: eight bytes of length, a header in JSON, then the tensors' bytes.

    Raises:
        UsageError: there is no such tensor, or it is of another shape or type.
    """
    try:
        with open_regular(path) as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > MOST_HEADER_BYTES:
                raise ValueError(f"its header has {length} bytes; at most {MOST_HEADER_BYTES} are read")
            header = msgspec.json.decode(stream.read(length), type=dict[str, msgspec.Raw])
            if key not in header:
                raise ValueError(f"no tensor {key}; there are {list_first(sorted({*header} - {'__metadata__'}), 4)}")
            said = msgspec.json.decode(header[key], type=StoredTensor)
            first, last = said.data_offsets
            if SAFETENSORS.get(said.dtype) != spec.dtype or tuple(said.shape) != spec.shape:
                raise ValueError(f"{key} is {said.dtype} of {said.shape}, not {spec.dtype} of {spec.shape}")
            if last - first != spec.nbytes:
                raise ValueError(f"{key} has {last - first} bytes, and its shape takes {spec.nbytes}")
            held = os.fstat(stream.fileno()).st_size - 8 - length
            if first < 0 or last > held:
                raise ValueError(f"{key} lies at bytes {first} to {last}, and the file holds {held}")
            stream.seek(8 + length + first)
            return np.frombuffer(bytearray(stream.read(spec.nbytes)), spec.type).reshape(spec.shape)
    except FAULTS as error:
        raise UsageError(f"{path} cannot be read as safetensors: {error}") from None


def as_declared(value: Any, spec: Array) -> np.ndarray:
    """Return a result of the reference, or an input that a definition makes, as a NumPy array of the type declared."""
    if hasattr(value, "detach"):
        value = value.detach()
        value = (value.float() if value.is_floating_point() and value.element_size() < 4 else value).cpu().numpy()
    return np.asarray(value).astype(spec.type, copy=False).reshape(spec.shape)


def _stand_for(*content: object) -> None:
    """Stand for a definition or a solution, which its content alone identifies."""


def find_files(path: Path, *, with_solutions: bool = True) -> tuple[Path, Path, list[Path], list[Path]]:
    """Return a definition's file, the folder that names of tensors start from, its workloads and its solutions.

    Raises:
        UsageError: there is no definition, or several, none of its workloads, or a link that leads elsewhere.
    """
    try:
        path = path.absolute()
        definition = path if path.is_file() else _find_only(path)
        folder = definition.parent
        roots = (each.parent for each in definition.parents if each.name == "definitions")
        root = next((each for each in roots if (each / "workloads").is_dir()), None)
        if root is None:
            workloads, solutions = [*folder.glob("workload*.jsonl")], [*folder.glob("solution*.json")]
        else:
            workloads = [*(root / "workloads").rglob(f"{definition.stem}.jsonl")]
            files = [file for file in (root / "solutions").rglob("*.json") if with_solutions and file.is_file()]
            # those in a folder of the definition's name, and those elsewhere that hold the name
            name, said = definition.stem, f'"{definition.stem}"'.encode()
            solutions = [file for file in files if file.parent.name == name or said in read_regular(file)]
        # one that is too large by itself is told with its name when it is read
        sizes = (min(file.stat().st_size, MOST_BYTES) for file in solutions)
        held = sum(sizes) if with_solutions else 0
    except (OSError, ValueError, RuntimeError) as error:  # names that are too long, links in a circle
        raise UsageError(f"{path} cannot be searched: {error}") from None
    if len(solutions) > MOST_SOLUTIONS:
        raise UsageError(f"{definition} has {len(solutions)} solutions; at most {MOST_SOLUTIONS} are read")
    if held > MOST_SOLUTION_BYTES:
        raise UsageError(f"{definition} has solutions of {held} bytes; at most {MOST_SOLUTION_BYTES} are read")
    if not workloads:
        raise UsageError(f"{definition} has no workload*.jsonl beside it, nor in the folders of a trace set")
    for file in [*workloads, *solutions, *([definition] if definition != path else [])]:
        find_inside(root or folder, str(file))
    return definition, root or folder, sorted(workloads), sorted(solutions) if with_solutions else []


def _find_only(folder: Path) -> Path:
    alone = folder / "definition.json"
    found = [alone] if alone.is_file() else sorted((folder / "definitions").rglob("*.json"))
    if not found:
        raise UsageError(
            f"{folder} has no definition.json; name a Python file, a family of the project or a definition"
        )
    if len(found) > 1:
        names = list_first([str(each) for each in found], 4)
        raise UsageError(f"{folder} has {len(found)} definitions; name one: {names}")
    return found[0]
