"""What a variant of its own source builds and launches, as plain data.

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

Argument: TypeAlias = "str | int | float | np.generic | Texture | TensorMap"
"""A kernel argument: a buffer's name, a scalar (a Python int becomes int32, a Python float float32), a struct by value
(a `np.void` of an aligned structured dtype), or a view of a buffer that the driver describes."""


@dataclass(frozen=True)
class Array:
    """Describe one buffer: its shape in elements and the name of their type.

    Args:
        dtype: NumPy's name, or that of a type of ml_dtypes (bfloat16, float8_e4m3fn); a structured NumPy dtype becomes
            a text that says the same.
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
        width: texels a row of a two-dimensional texture; 0 for a linear one.
        channels: elements a texel, 1, 2 or 4.
        interpolates: a two-dimensional texture reads between texels, as `cudaFilterModeLinear` does.
    """

    buffer: str
    width: int = 0
    channels: int = 1
    interpolates: bool = False


@dataclass(frozen=True)
class TensorMap:
    """Pass a buffer as a tiled `CUtensorMap`, a `const __grid_constant__` parameter that TMA copies through.

    Args:
        buffer: its name; the tensor has the buffer's shape, the last axis being the contiguous one.
        box: elements that one copy moves along each axis of the shape.
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
        block: threads a block (OpenCL: work-items a group) in x, y, z; Triton takes them from `num_warps`.
        args: in the order of the kernel's parameters.
        shared_bytes: dynamic shared memory a block, in bytes (CUDA).
        cooperative: launch so that all blocks are on the device together and may wait for one another by
            `cooperative_groups::this_grid().sync()` (CUDA); a grid that does not fit is refused by the driver.
        cluster: blocks a cluster in x, y, z (CUDA, from compute capability 9.0); empty for none.
        overlaps: may begin before the launch ahead of it ends; `griddepcontrol.wait` waits for that one
            (CUDA, programmatic stream serialization).
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
    """Set every byte of a buffer to `value` (0…255); part of the timed region, in the order given."""

    buffer: str
    value: int = 0


@dataclass(frozen=True)
class Invoke:
    """Call an `extern "C"` function of the shared library that the variant's source becomes.

    Its parameters are those of `args`, buffers as pointers; on CUDA one more, the `cudaStream_t` to work on. What it
    returns, if it is no `void`, is 0 where all went well: an `int` or a `cudaError_t`.
    """

    function: str
    args: tuple[Argument, ...]


@dataclass(frozen=True)
class File:
    """Stand for the path of a file in a command line: one with an input's content, or one that an output is read from.

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
        stdout: an output whose numbers are the last ones of what it prints; empty where all are read from files.
        environment: variables set for it.
    """

    arguments: tuple[str | int | float | File, ...] = ()
    stdout: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Copy:
    """Copy a buffer into another one on the device: its bytes, or as many as the other has."""

    source: str
    target: str


@dataclass(frozen=True)
class Repeat:
    """Repeat launches, fills and copies.

    Args:
        steps: of one round.
        times: how often, or how often at most.
        until: a buffer; once its first element is not 0 after a round, no further one begins (CUDA). The host waits for
            each round to look at it.
    """

    steps: tuple[Launch | Fill | Copy, ...]
    times: int
    until: str = ""


@dataclass(frozen=True)
class Reduced:
    """Stand for a result that is left in parts: an output's worth each, one after the other in a buffer.

    They are put together on the host after each execution that is compared, in float64 or 64-bit integers, untimed.

    Args:
        buffer: whose size may depend on the tunables.
        by: "sum", "min" or "max".
    """

    buffer: str
    by: str = "sum"

    def put_together(self, parts: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return an output of this shape."""
        import numpy as np

        wide = {"f": "f8", "V": "f8", "c": "c16", "i": "i8", "u": "u8"}.get(parts.dtype.kind, "i8")
        function = {"sum": np.add, "min": np.minimum, "max": np.maximum}[self.by]
        return np.asarray(function.reduce(parts.reshape(-1, *shape).astype(wide), axis=0))


Step: TypeAlias = Launch | Fill | Invoke | Execute | Copy | Repeat


@dataclass(frozen=True)
class Program:
    """Describe a variant at one problem and one choice of tunables.

    Args:
        steps: launches, fills and calls in stream order; they read inputs and write outputs and scratch, and must give
            the same result however often they are repeated.
        defines: the compile-time parameters: preprocessor macros; for Triton `tl.constexpr` parameters and options
            such as `num_warps`.
        options: further compiler options.
        scratch: device buffers beside the family's inputs and outputs, contents undefined before the first step.
        results: for an output that does not end in the buffer of its own name: output name → buffer name.
            The buffer may be longer than the output; its first elements count. Or a `Reduced`.
        constants: `__constant__` symbol → input buffer copied into it once, before anything is timed (CUDA).
        setup: fills, copies and launches ahead of each execution, once the inputs are written, untimed. They write
            scratch alone; launches read nothing but that and the family's constants.
    """

    steps: tuple[Step, ...]
    defines: Mapping[str, str | int] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    scratch: Mapping[str, Array] = field(default_factory=dict)
    results: Mapping[str, str | Reduced] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[Step, ...] = ()

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Return the kernel launches alone, those of the set-up and of one round of each `Repeat` among them."""
        steps = (*self.setup, *self.steps)
        inner = (each for step in steps for each in (step.steps if isinstance(step, Repeat) else (step,)))
        return tuple(step for step in inner if isinstance(step, Launch))

    @property
    def block_threads(self) -> int | None:
        """Return the threads of the largest block that is launched; None where launches do not say, as Triton's."""
        largest = max((math.prod(map(int, launch.block)) for launch in self.launches), default=1)
        return largest if largest > 1 else None

    def find_result(self, output: str) -> str:
        """Return the buffer that an output ends in."""
        found = self.results.get(output, output)
        return found.buffer if isinstance(found, Reduced) else found

    @property
    def calls_host(self) -> bool:
        """Return whether code of the variant runs on the host, in the process that executes it."""
        return any(isinstance(step, Invoke) for step in self.steps)


@cache
def read_dtype(text: str) -> np.dtype:
    """Return the type that an `Array` names.

    Raises:
        FamilyError: there is none of that name.
    """
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
    """Return whether NumPy has a type of numbers from another library alone (ml_dtypes: bfloat16, float8)."""
    return kind.isbuiltin == 2


def as_scalar(value: object) -> np.generic:
    """Return a kernel's scalar argument: Python ints as int32, Python floats as float32, NumPy scalars as they are."""
    import numpy as np

    if isinstance(value, np.generic):
        return value
    assert isinstance(value, int | float)
    return np.int32(value) if isinstance(value, int) else np.float32(value)
