"""Use a function with tunables, or a kernel with its launch, in place of a plain function in `cuprof.compare`.

A `@triton.jit` function is a kernel's source: Triton compiles it ahead, and it is launched like any other kernel.
"""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np

from cuprof.core.errors import UsageError
from cuprof.core.point import Axes, Coordinate, Point
from cuprof.families.model import Sample, Tunable, as_names
from cuprof.families.program import Argument, Array, Copy, Fill, Invoke, Launch, Program, Reduced
from cuprof.families.tunables import (
    Configurations,
    Constraint,
    GivenConstraint,
    explain_unlisted,
    list_configurations,
    list_layers,
    list_tunables,
    read_constraint,
)

Size: TypeAlias = "int | str"
Sizes: TypeAlias = "Size | tuple[Size, ...] | Callable[..., Any] | None"
"""Sizes in x, y, z: numbers, names of tunables, axes or scalars, or a function that takes such names and returns
numbers."""
BLOCK_NAMES = ("block_size_x", "block_size_y", "block_size_z")
"""Tunables that set the block's sizes by default, as in Kernel Tuner."""


@dataclass(frozen=True)
class Kernel:
    """One implementation, made by `kernel`, which describes most fields. Calling it calls its function.

    Attributes:
        function: computes on arrays; None for a kernel's source.
        jit: the `@triton.jit` function that is the source.
        derived: macros, or a Triton function's constants, computed from a problem's values.
    """

    name: str = ""
    function: Callable[..., Any] | None = None
    symbol: str = ""
    source: str = ""
    backend: str = "cuda"
    grid: Sizes = None
    block: Sizes = None
    threads: Sizes = None
    shared_bytes: Size | Callable[..., Any] = 0
    args: Sequence[str] | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    compiler: str = ""
    files: tuple[str, ...] = ()
    constraint: GivenConstraint = None
    tunables: Axes = field(default_factory=dict)
    scratch: Mapping[str, tuple[Sizes, str]] = field(default_factory=dict)
    results: Mapping[str, str | Reduced] = field(default_factory=dict)
    setup: tuple[Fill | Copy, ...] = ()
    jit: Any = None
    derived: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def __call__(self, *args: Any, **tunables: Any) -> Any:
        """Call the function."""
        if self.function is None:
            raise TypeError(f"{self.symbol} is a kernel's source, and is launched by cuprof alone")
        return self.function(*args, **{name: values[0] for name, values in self.tunables.items()} | tunables)

    @property
    def is_text(self) -> bool:
        """Return whether `source` is the text itself, which may be one line, and no file's name."""
        return "\n" in self.source or "{" in self.source

    @property
    def configurations(self) -> Configurations:
        """Return what `@triton.autotune` lists for the function."""
        return list_configurations(list_layers(self.jit))

    def list_tunables(self) -> tuple[Tunable, ...]:
        """Return the tunables; the first value of each is its default."""
        values = {**list_tunables(self.configurations), **self.tunables}
        return tuple(Tunable(name, each, each[0]) for name, each in values.items() if name not in self.derived)

    def read_constraint(self, axes: Sequence[str]) -> Constraint | None:
        """Return `@triton.autotune`'s list and `constraint` as one function: why tunables are not allowed, or None."""
        listed = [partial(explain_unlisted, self.configurations, self.tunables)] if self.configurations else []
        given: list[Any] = [*listed, *([self.constraint] if self.constraint else [])]
        return read_constraint(given, [*axes, *(one.name for one in self.list_tunables())]) if given else None

    def make_program(self, find_sample: Callable[[Point], Sample], problem: Point, tunables: Point) -> Program:
        """Return the launchable program; raise `UsageError` where a size cannot be computed."""
        sample = find_sample(problem)
        arrays, numbers = {**sample.signature.inputs, **sample.signature.outputs}, sample.numbers
        given = {name: scalar.value for name, scalar in sample.scalars.items()}
        known: dict[str, Any] = {**arrays, **problem, **given, **tunables}
        for name, function in self.derived.items():
            value = self._call(function, known, name)
            known[name] = value.item() if hasattr(value, "item") else value
        defines = {name: known[name] for name in (*tunables, *self.derived)}
        names = self.args or self._list_arguments(known, defines) or sample.arguments
        fixed = {**{name: name for name in arrays}, **numbers}
        arguments = tuple(fixed[name] if name in fixed else known.get(name, name) for name in names)
        grid, step = self._launch(arguments, known)
        if self.jit is None:
            plain = {name: int(one) if isinstance(one, bool) else one for name, one in defines.items()}
            defines = {name: repr(one) if isinstance(one, float) else one for name, one in plain.items()}
        known.setdefault("blocks", math.prod(grid))
        scratch = {
            name: Array(self._sizes(f"scratch {name}", shape, known), dtype)
            for name, (shape, dtype) in self.scratch.items()
        }
        return Program(
            steps=(step,),
            defines=defines,
            options=self.options,
            constants=self.constants,
            scratch=scratch,
            results=self.results,
            setup=self.setup,
        )

    def _launch(
        self, arguments: tuple[Argument, ...], known: Mapping[str, Any]
    ) -> tuple[tuple[int, ...], Invoke | Launch]:
        """Return the grid, and the launch with it, or a host function's call."""
        grid, threads = self._sizes("grid", self.grid, known), self._sizes("threads", self.threads, known)
        if self.backend == "cpu":
            return grid, Invoke(self.symbol, arguments)
        named = tuple(name for name in BLOCK_NAMES if name in self.tunables)
        block = (1,) if self.jit is not None else self._sizes("block", self.block or named, known)
        if not block or not (grid or threads):
            what = "grid= (in blocks)" if self.jit is not None else "grid= (in blocks) or threads= (in all)"
            what = what if block else f"block=, or tunables {', '.join(BLOCK_NAMES)}"
            raise UsageError(f"kernel {self.symbol} needs {what}")
        grid = grid or tuple(-(-size // width) for size, width in zip(threads, (*block, 1, 1), strict=False))
        shared = self._sizes("shared_bytes", self.shared_bytes, known)[0] if self.shared_bytes else 0
        return grid, Launch(self.symbol, grid, block, arguments, shared)

    def _list_arguments(self, known: Mapping[str, Any], defines: dict[str, Any]) -> list[str]:
        """Return the names of a Triton function's parameters, where all are known; give its constants their values."""
        if self.jit is None:
            return []
        parameters = [one for one in list_layers(self.jit)[-1].params if one.name not in defines]
        constants = [one.name for one in parameters if one.is_constexpr]
        defines |= {name: known[name] for name in constants if isinstance(known.get(name), int | float | str)}
        names = [one.name for one in parameters if not one.is_constexpr]
        return names if all(name in known for name in names) else []

    def _call(self, function: Callable[..., Any], known: Mapping[str, Any], what: str) -> Any:
        """Call a function with the values of its parameters' names; `meta` is all of them, as in Triton."""
        return call_by_name(function, {**known, "meta": known, "META": known}, f"{what} of kernel {self.symbol}")

    def _sizes(self, what: str, sizes: Sizes, known: Mapping[str, Any]) -> tuple[int, ...]:
        given: Any = self._call(sizes, known, what) if callable(sizes) else sizes
        found = []
        for size in given if isinstance(given, tuple | list) else () if given is None else (given,):
            number = known.get(size) if isinstance(size, str) else size
            if number is None or isinstance(number, Array | str) or int(number) != number:
                taken = f"a whole number, or one of {', '.join(known)}"
                raise UsageError(f"{what} of kernel {self.symbol} is {size!r}; give {taken}")
            found.append(int(number))
        return tuple(found)


_NOTHING = Kernel()
LAUNCH = ("grid", "block", "threads", "shared_bytes", "args", "options", "compiler")
"""Names that describe a kernel's launch; a function's tunables may have them, too."""


def kernel(
    what: str | Callable[..., Any] | None = None,
    *,
    name: str = "",
    source: str = "",
    backend: str = "cuda",
    grid: Sizes = None,
    block: Sizes = None,
    threads: Sizes = None,
    shared_bytes: Size | Callable[..., Any] = 0,
    args: Sequence[str] | None = None,
    constants: Mapping[str, str] = {},
    options: str | Sequence[str] = (),
    compiler: str = "",
    files: str | Sequence[str] = (),
    constraint: GivenConstraint = None,
    scratch: Mapping[str, tuple[Sizes, str]] = {},
    results: Mapping[str, str | Reduced] = {},
    setup: Sequence[Fill | Copy] = (),
    **tunables: Any,
) -> Any:
    """Describe an implementation for `compare`: a function with tunables, or a kernel's source with its launch.

    Example:
        A function gets its tunables as keyword arguments, a source gets them as macros::

            @cuprof.kernel(block=(64, 128, 256))
            def add(x, y, block): ...

            add = cuprof.kernel("add", source="add.cu", threads="n", block_size_x=(64, 128, 256))

            add = cuprof.kernel(add_kernel, grid=lambda n, BLOCK: triton.cdiv(n, BLOCK), BLOCK=(512, 1024), num_warps=4)

    Args:
        what: a function, a `@triton.jit` one, or the symbol of a kernel; left out in a decorator.
        name: the variant's name; default: the function's name or the symbol.
        source: CUDA C++, OpenCL C, or C or C++ of the host: a file, or the text itself.
        backend: a source's back end, "cuda" or "opencl"; "cpu" if `compiler` is the host's.
        grid: blocks; default: computed from `threads` and `block`. A function may take all values as `meta`, or by
            name as `**named`.
        block: threads a block; default: the tunables block_size_x, _y, _z.
        threads: threads in all, rounded up to whole blocks.
        shared_bytes: dynamic shared memory a block.
        args: the kernel's arguments by name. Default: all inputs' in order, or a Triton function's parameters if
            inputs, numbers or axes have all those names.
        constants: `__constant__` symbol → the input copied into it.
        options: further compiler options, in one text or several.
        compiler: "nvcc" for CUDA C++ that NVRTC does not compile, as with <cub/cub.cuh>; "gcc" or "g++" for a function
            of the host, `extern "C"`, which is called with the arguments and has no launch.
        files: files that the implementation reads beside its source; changing them makes stored results stale.
        constraint: a condition on tunables and axes, "block_x * block_y <= 1024"; or a function that takes them by name
            and returns False, or a reason, for an invalid combination; or several of these.
        scratch: further buffer → its shape, of sizes as in `grid` and "blocks", and its type.
        results: output that is not in the argument of its own name → its buffer, or `cuprof.Reduced` of it.
        setup: `cuprof.Copy` and `cuprof.Fill` of scratch ahead of each execution, untimed.
        **tunables: name → the values to try, or a single one. Of a function, grid, block, threads, shared_bytes, args,
            options and compiler are such names too; of a kernel a function gives what follows from axes, scalars and
            tunables.
    """
    options = tuple(shlex.split(options) if isinstance(options, str) else options)
    given: dict[str, Any] = locals()
    given = {key: value for key, value in given.items() if key not in ("what", "tunables")}
    described = Kernel(
        tunables={key: read_values(key, one) for key, one in tunables.items() if not callable(one)},
        derived={key: one for key, one in tunables.items() if callable(one)},
        **given | {"files": as_names("files", files), "setup": tuple(setup)},
    )
    if what is None:
        return lambda function: _of_function(described, function)
    if isinstance(what, str):
        if not source:
            raise UsageError(f"kernel {what!r} needs source=, a file or CUDA C++ text")
        return replace(described, symbol=what, backend="cpu" if compiler in ("gcc", "g++") else backend)
    return _of_function(described, what)


def _of_function(described: Kernel, function: Any) -> Kernel:
    """Return what describes a function: it has no launch, so names of parts of one are tunables like any other."""
    given = {key: one for key in LAUNCH if (one := getattr(described, key)) != getattr(_NOTHING, key)}
    if layers := list_layers(function):
        symbol = layers[-1].fn.__name__
        for key in sorted({*given, "source", "constants"} - {"grid", "args"}):
            if getattr(described, key) != getattr(_NOTHING, key):
                raise UsageError(f"{symbol} is a Triton function, which takes no {key}=; give grid=, and num_warps=")
        return replace(described, symbol=symbol, jit=function)
    if not callable(function):
        hint = "give the function itself: f, not f(x)"
        if isinstance(function, list | tuple | dict):
            hint = f"give several one by one: *functions{'.values()' if isinstance(function, dict) else ''}"
        raise UsageError(f"an implementation is of type {type(function).__name__}; {hint}")
    tunables = {key: read_values(key, one) for key, one in {**described.derived, **given}.items()}
    plain = {key: getattr(_NOTHING, key) for key in given}
    return replace(described, function=function, tunables={**described.tunables, **tunables}, **plain)


def read_values(name: str, given: Any) -> tuple[Coordinate, ...]:
    """Return the values of a tunable, given as one or several; raise `UsageError` unless they are numbers or texts."""
    values = tuple(given) if isinstance(given, list | tuple | range | np.ndarray) else (given,)
    values = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    if not values or not all(isinstance(value, int | float | str | bool) for value in values):
        raise UsageError(f"tunable {name} is {given!r}; give its values: numbers, texts, or a list of them")
    return values


def call_by_name(function: Callable[..., Any], known: Mapping[str, Any], where: str) -> Any:
    """Call a function with the values that its parameters name; one with `**named` gets them all."""
    names = list_named(function)
    names = tuple(known) if names is None else names
    try:
        return function(**{name: known[name] for name in names})
    except KeyError:
        absent = [name for name in names if name not in known]
        if not absent:
            raise
        raise UsageError(f"{where} asks for {', '.join(absent)}; there are {', '.join(known)}") from None


def list_named(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the parameters without a default, None for any; looked up once, since a space asks for each trial."""
    return _known_parameters(function) if isinstance(function, Hashable) else _known_parameters.__wrapped__(function)


@lru_cache(maxsize=256)
def _known_parameters(function: Callable[..., Any]) -> tuple[str, ...] | None:
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return tuple(one.name for one in parameters if one.default is one.empty)
