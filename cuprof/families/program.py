"""The builds and launches of a variant with its own source, as plain data.

A `Program` names no device, so it can be planned, hashed, compiled and compared on a machine without a GPU.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from cuprof.core.errors import FamilyError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Array", "Copy", "Execute", "File", "Fill", "Invoke", "Launch", "Program", "Reduced", "Repeat"]
__all__ += ["TensorMap", "Texture"]

WARP_THREADS = 32
Argument: TypeAlias = "str | int | float | np.generic | Texture | TensorMap"
"""A kernel argument: a buffer's name, a scalar, a struct by value, or a `Texture` or `TensorMap` of a buffer. A Python
int becomes int32, a Python float float32; a struct is a `np.void` of an aligned structured dtype."""


@dataclass(frozen=True)
class Array:
    """Describe one buffer: its shape in elements and the name of their type.

    Args:
        dtype: NumPy's name, or ml_dtypes' (bfloat16, float8_e4m3fn); a structured NumPy dtype becomes a text.
    """

    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        given: Any = self.dtype
        if not isinstance(given, str):
            import numpy as np

            kind = np.dtype(given)
            text = repr(np.lib.format.dtype_to_descr(kind)) if kind.names else kind.name
            object.__setattr__(self, "dtype", text)

    @property
    def type(self) -> np.dtype:
        """Return the type of its elements."""
        return read_dtype(self.dtype)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(map(int, self.shape))

    @property
    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self.size * self.type.itemsize


@dataclass(frozen=True)
class Texture:
    """Pass a buffer as a `cudaTextureObject_t` that reads its elements where they lie.

    Args:
        buffer: its name.
        width: texels in a row of a two-dimensional texture; 0 for a linear texture.
        channels: elements in a texel: 1, 2 or 4.
        interpolates: read between the texels of a two-dimensional texture, as `cudaFilterModeLinear` does.
    """

    buffer: str
    width: int = 0
    channels: int = 1
    interpolates: bool = False


@dataclass(frozen=True)
class TensorMap:
    """Pass a buffer as a tiled `CUtensorMap`, a `const __grid_constant__` parameter that TMA copies through.

    Args:
        buffer: its name; the tensor has the buffer's shape, and its last axis is contiguous.
        box: elements that one copy moves along each axis.
        swizzle: bytes of the pattern in shared memory: 0, 32, 64 or 128.
    """

    buffer: str
    box: tuple[int, ...]
    swizzle: int = 0


@dataclass(frozen=True)
class Launch:
    """Launch one kernel.

    Args:
        kernel: the kernel's symbol, or in CUDA C++ a name expression such as `scale<float, 256>`.
        grid: blocks (OpenCL: work-groups) in x, y, z.
        block: threads in a block (OpenCL: work-items in a group) in x, y, z; Triton takes them from `num_warps`.
        args: in the order of the kernel's parameters.
        shared_bytes: dynamic shared memory of a block, in bytes (CUDA).
        cooperative: keep all blocks on the device together, so that they can wait for one another by
            `cooperative_groups::this_grid().sync()` (CUDA); the driver refuses a grid that does not fit.
        cluster: blocks in a cluster in x, y, z (CUDA, from compute capability 9.0); empty for none.
        overlaps: may begin before the previous launch ends; `griddepcontrol.wait` waits for it (CUDA, programmatic
            stream serialization).
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...] = (1,)
    args: tuple[Argument, ...] = ()
    shared_bytes: int = 0
    cooperative: bool = False
    cluster: tuple[int, ...] = ()
    overlaps: bool = False


@dataclass(frozen=True)
class Fill:
    """Set every byte of a buffer to `value` (0…255), in the order of the steps and timed with them."""

    buffer: str
    value: int = 0


@dataclass(frozen=True)
class Invoke:
    """Call an `extern "C"` function of the shared library that the variant's source becomes.

    Its parameters are those of `args`, with buffers as pointers; on CUDA the last one is the `cudaStream_t` to work on.
    It returns `void`, or an `int` or `cudaError_t` that is 0 for success.
    """

    function: str
    args: tuple[Argument, ...]


@dataclass(frozen=True)
class File:
    """Stand for a file's path in a command line: it has an input's content, or the program writes an output there.

    Args:
        buffer: the input or output.
        format: "raw" for the elements' bytes alone, "npy" for NumPy's, "text" for numbers between white space.
    """

    buffer: str
    format: str = "raw"


@dataclass(frozen=True)
class Execute:
    """Run the executable that the variant's source becomes, or is, once.

    Args:
        arguments: of its command line; numbers as Python writes them.
        stdout: the output whose numbers the program prints last; empty where all outputs are read from files.
        environment: variables set for it.
    """

    arguments: tuple[str | int | float | File, ...] = ()
    stdout: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Copy:
    """Copy the bytes of a buffer into another one on the device, as many as that one has."""

    source: str
    target: str


@dataclass(frozen=True)
class Repeat:
    """Repeat launches, fills and copies.

    Args:
        steps: of one round.
        times: how often, or at most how often.
        until: a buffer; the rounds end when its first element is not 0 after a round (CUDA). The host waits for each
            round to read it.
    """

    steps: tuple[Launch | Fill | Copy, ...]
    times: int
    until: str = ""


@dataclass(frozen=True)
class Reduced:
    """Stand for a result in parts: each has the size of the output, and they follow one another in a buffer.

    The host reduces them in float64 or 64-bit integers, untimed, after each execution that is compared.

    Args:
        buffer: its size may depend on the tunables.
        by: "sum", "min" or "max".
    """

    buffer: str
    by: str = "sum"

    def put_together(self, parts: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return the reduced output in this shape."""
        import numpy as np

        wide = {"f": "f8", "V": "f8", "c": "c16", "i": "i8", "u": "u8"}.get(parts.dtype.kind, "i8")
        function = {"sum": np.add, "min": np.minimum, "max": np.maximum}[self.by]
        return np.asarray(function.reduce(parts.reshape(-1, *shape).astype(wide), axis=0))


Step: TypeAlias = Launch | Fill | Invoke | Execute | Copy | Repeat


@dataclass(frozen=True)
class Program:
    """Describe a variant at one problem and one choice of tunables.

    Args:
        steps: launches, fills and calls in stream order; they read inputs and write outputs and scratch, and give the
            same result however often they are repeated.
        defines: compile-time parameters: preprocessor macros; for Triton, `tl.constexpr` parameters and options such as
            `num_warps`.
        options: further compiler options.
        scratch: further device buffers; their contents are undefined before the first step.
        results: output → the buffer that holds it at the end, where that is not its own, or a `Reduced`. A longer
            buffer's first elements count.
        constants: `__constant__` symbol → the input that is copied into it once, untimed (CUDA).
        setup: fills, copies and launches before each execution, untimed, after the inputs are written. They write
            scratch alone, and launches read only scratch and the family's constants.
    """

    steps: tuple[Step, ...]
    defines: Mapping[str, str | int] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    scratch: Mapping[str, Array] = field(default_factory=dict)
    results: Mapping[str, str | Reduced] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[Step, ...] = ()

    @property
    def calls(self) -> tuple[Launch | Invoke, ...]:
        """Return the launches and the host's calls, with those of the set-up and of one round of each `Repeat`."""
        steps = (*self.setup, *self.steps)
        inner = (each for step in steps for each in (step.steps if isinstance(step, Repeat) else (step,)))
        return tuple(step for step in inner if isinstance(step, Launch | Invoke))

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Return the kernel launches among the calls."""
        return tuple(step for step in self.calls if isinstance(step, Launch))

    @property
    def block_threads(self) -> int | None:
        """Return the threads of the largest block, Triton's by `num_warps`; None where they show when it runs."""
        largest = max((math.prod(map(int, launch.block)) for launch in self.launches), default=1)
        warps = self.defines.get("num_warps")
        return largest if largest > 1 else WARP_THREADS * warps if isinstance(warps, int) else None

    def find_result(self, output: str) -> str:
        """Return the buffer that holds an output at the end."""
        found = self.results.get(output, output)
        return found.buffer if isinstance(found, Reduced) else found

    @property
    def calls_host(self) -> bool:
        """Return whether the program runs code of the variant in the worker's own process."""
        return any(isinstance(step, Invoke) for step in self.steps)

    def describe(self) -> dict[str, object]:
        """Return what the program is to an identity, as plain data; see `cuprof.plan.identity`."""
        return {
            "constants": dict(self.constants),
            "defines": {name: str(value) for name, value in self.defines.items()},
            "options": self.options,
            "results": {
                name: each if isinstance(each, str) else [each.by, each.buffer] for name, each in self.results.items()
            },
            "scratch": {
                name: [[*map(int, array.shape)], array.dtype if array.type.kind == "V" else array.type.str]
                for name, array in self.scratch.items()
            },
            **({"setup": [_step(step) for step in self.setup]} if self.setup else {}),
            "steps": [_step(step) for step in self.steps],
        }


@cache
def read_dtype(text: str) -> np.dtype:
    """Return the type that an `Array` names; raise `FamilyError` where there is none of that name."""
    import numpy as np

    if text.startswith("["):
        return np.lib.format.descr_to_dtype(ast.literal_eval(text))
    try:
        return np.dtype(text)
    except TypeError:
        unknown = f"dtype {text!r}, which NumPy does not know"
        try:
            import ml_dtypes
        except ImportError:
            hint = "; bfloat16 and float8 need ml_dtypes: pip install 'cuprof[dtypes]'"
            raise FamilyError(unknown + hint) from None
        found = getattr(ml_dtypes, text, None)
        if not isinstance(found, type):
            raise FamilyError(unknown) from None
        return np.dtype(found)


def is_extended(kind: np.dtype) -> bool:
    """Return whether a type of numbers comes from another library than NumPy (ml_dtypes: bfloat16, float8)."""
    return kind.isbuiltin == 2


def as_scalar(value: object) -> np.generic:
    """Return a kernel's scalar argument: Python ints as int32, Python floats as float32, NumPy scalars as they are."""
    import numpy as np

    if isinstance(value, np.generic):
        return value
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number that a kernel takes")
    return np.int32(value) if isinstance(value, int) else np.float32(value)


def _step(step: Step) -> tuple[object, ...]:
    """Return a step as nested tuples, which are JSON's arrays."""
    if isinstance(step, Launch):
        return (
            "launch",
            step.kernel,
            tuple(map(int, step.grid)),
            tuple(map(int, step.block)),
            tuple(map(_argument, step.args)),
            int(step.shared_bytes),
            *(("cooperative",) if step.cooperative else ()),
            *((("cluster", *map(int, step.cluster)),) if step.cluster else ()),
            *(("overlaps",) if step.overlaps else ()),
        )
    if isinstance(step, Copy):
        return ("copy", step.source, step.target)
    if isinstance(step, Repeat):
        return ("repeat", int(step.times), step.until, tuple(map(_step, step.steps)))
    if isinstance(step, Fill):
        return ("fill", step.buffer, int(step.value))
    if isinstance(step, Invoke):
        return ("invoke", step.function, tuple(map(_argument, step.args)))
    words = tuple((word.buffer, word.format) if isinstance(word, File) else str(word) for word in step.arguments)
    return ("execute", words, step.stdout, tuple(sorted(step.environment.items())))


def _argument(argument: Argument) -> tuple[object, ...]:
    import numpy as np

    if isinstance(argument, np.generic):  # before float: np.float64 is one
        if isinstance(argument, np.void):
            return (str(argument.dtype.descr), argument.tobytes().hex())
        return (argument.dtype.str, repr(argument.item()))
    if isinstance(argument, str):
        return ("buffer", argument)
    if isinstance(argument, Texture):
        return ("texture", argument.buffer, argument.width, argument.channels, bool(argument.interpolates))
    if isinstance(argument, TensorMap):
        return ("tensor map", argument.buffer, tuple(map(int, argument.box)), argument.swizzle)
    return ("float", repr(argument)) if isinstance(argument, float) else ("int", str(int(argument)))
