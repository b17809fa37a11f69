"""What a script hands to Kernel Tuner's `tune_kernel`, as a computation with one kernel.

The script runs up to its first call of `tune_kernel`. Nothing is tuned and nothing behind the call runs. Kernel Tuner
itself need not be installed.

Sizes, divisors, restrictions and macros mean what Kernel Tuner's documentation says. Every array that the kernel may
write to is worked on in place, as there, and counts once as moved. Where the script has no answer, configurations are
held to one another.
"""

from __future__ import annotations

import math
import re
import runpy
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from inspect import Parameter, Signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cuprof.core.errors import FamilyError
from cuprof.families import Array, Tolerance
from cuprof.families import Signature as Buffers
from cuprof.families.arrays import home_of, to_host
from cuprof.families.computation import Computation
from cuprof.families.kernel import BLOCK_NAMES, Kernel, read_values
from cuprof.families.origin import as_if_alone, family_name, own_imports
from cuprof.families.syntax import imported_files, read_source
from cuprof.families.tolerances import by_type, longest_sum
from cuprof.families.trace import blame, describe

TUNER = "kernel_tuner"
OPTIONAL = ("grid_div_x", "grid_div_y", "grid_div_z", "restrictions", "answer", "atol", "verify", "verbose", "lang")
"""Parameters of `tune_kernel` behind the first five, in Kernel Tuner 1.x's order."""
ATOL = 1e-6
"""Kernel Tuner's default."""
BACKENDS = {"CUDA": "cuda", "CUPY": "cuda", "NVCUDA": "cuda", "OPENCL": "opencl"}
"""Kernel Tuner's `lang` → the back end."""
HOST_HEADERS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(cub/cub\.cuh|thrust/)", re.MULTILINE)
"""Headers that NVRTC cannot compile but nvcc, which Kernel Tuner calls, can."""
COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
BLOCK_X = 256
"""Threads a block where no tunable says it."""
RELATIVE = 1e-5
"""The relative tolerance that Kernel Tuner adds to `atol`: the default of NumPy's `allclose`."""


def read_script(script: Path) -> Computation:
    """Return what a script tunes; the script runs up to its call.

    One that raises, calls no `tune_kernel` or asks for something unsupported raises `FamilyError`.
    """
    given = _find_call(script)
    try:
        call = _Call(given, script)
        return Computation(family_name(script), [call.make_kernel()], script, **call.make_rest())
    except (AttributeError, TypeError, ValueError) as error:
        raise FamilyError(f"{script}: tune_kernel is given what it cannot take: {describe(error)}") from error


class _Call:
    """One call of `tune_kernel`."""

    def __init__(self, given: dict[str, Any], script: Path) -> None:
        self.given, self.script = given, script
        for name in ("texmem_args", "simulation_mode"):
            if given.get(name):
                self._refuse(f"{name}=")
        self.text, self.file = self._read_source()
        self.params: dict[str, Sequence[Any]] = {str(name): values for name, values in given["tune_params"].items()}
        self.block_names = tuple(given.get("block_size_names") or BLOCK_NAMES)
        constants = given.get("cmem_args") or {}
        self.constants = {f"constant_{name}": to_host(one, name) for name, one in constants.items()}
        self.arguments, self.written = self._name_arguments()
        self.first: dict[str, np.ndarray] = {}
        answer = given["answer"]
        if answer is not None and any(isinstance(one, _Unknown) for one in answer):
            answer = given["verify"] = None
        if answer is not None and len(answer) != len(self.arguments):
            self._refuse(f"an answer of {len(answer)} parts for {len(self.arguments)} arguments")
        self.answer = dict(zip(self.arguments, answer, strict=True)) if answer is not None else {}

    def make_kernel(self) -> Kernel:
        """Return the kernel with its launch and its tunables."""
        restrictions = self.given["restrictions"] or ()
        restrictions = restrictions if isinstance(restrictions, list | tuple) else [restrictions]
        shared = (self.given.get("smem_args") or {}).get("size", 0)
        known = {"__global__": "CUDA", "__kernel": "OpenCL"}
        language = self.given["lang"] or next((one for word, one in known.items() if word in self.text), "C")
        if str(language).upper() not in BACKENDS:
            self._refuse(f"lang={language!r}")
        return Kernel(
            symbol=str(self.given["kernel_name"]),
            source=self.file or f"{self.text}\n",
            backend=BACKENDS[str(language).upper()],
            grid=self._grid,
            block=self._block,
            shared_bytes=lambda meta: _evaluate(shared, self._chosen(meta)),
            args=tuple(self.arguments),
            constants={name.removeprefix("constant_"): name for name in self.constants},
            options=tuple(one for one in self.given.get("compiler_options") or () if "-arch" not in one),
            compiler="nvcc" if HOST_HEADERS.search(self.text) else "",
            constraint=[self._read_restriction(one) for one in restrictions] or None,
            tunables={name: read_values(name, list(values)) for name, values in self.params.items()},
            derived={name: one for name, one in self._list_macros().items() if name not in self.params},
        )

    def make_rest(self) -> dict[str, Any]:
        """Return the inputs, the right results, and the files that count."""
        drawn = {**self.arguments, **self.constants}
        rest: dict[str, Any] = {
            "inputs": lambda: drawn,
            "tolerance": (RELATIVE, float(self.given["atol"] or 0)),
            "useful_bytes": lambda **_: sum(one.nbytes for one in drawn.values() if isinstance(one, np.ndarray)),
            "in_place": tuple(self.written),
            "files": tuple(map(str, dict.fromkeys([self.script.resolve(), *imported_files(self.script.resolve())]))),
        }
        if self.given["verify"] is not None:
            judged = (name for name in self.written if self.answer.get(name, 0) is not None)
            rest["verify"] = _Judge(self._verify, judged)
        elif not self.answer:  # none, or what run_kernel would give
            rest["verify"] = _Judge(self._hold_to_first)
        else:
            rest["reference"] = self._reference
        return rest

    def _read_source(self) -> tuple[str, str]:
        """Return the text of the kernel, and its file where it is one."""
        source = self.given["kernel_source"]
        source = source[0] if isinstance(source, list | tuple) and source else source
        if not isinstance(source, str | Path):
            self._refuse(f"a kernel_source that is a {type(source).__name__}")
        if isinstance(source, Path) or ("\n" not in source and Path(self.script.parent, source).is_file()):
            file = Path(self.script.parent, source)
            return read_source(file), str(file)
        return source, ""

    def _name_arguments(self) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments by the names of the kernel's parameters, and which of them it may write to."""
        given, name = list(self.given["arguments"]), re.escape(str(self.given["kernel_name"]).partition("<")[0])
        found = re.search(rf"\b{name}\s*\(([^()]*)\)\s*{{", COMMENTS.sub(" ", self.text))
        parameters = found[1].split(",") if found else []
        names = [re.sub(r"\[.*", "", one).strip().rpartition(" ")[2].lstrip("*&") for one in parameters]
        if len(names) != len(given) or len({*names, *self.params}) != len(names) + len(self.params):
            parameters, names = [""] * len(given), [f"argument_{number}" for number in range(len(given))]
        arguments, written = {}, []
        for number, (name, parameter, one) in enumerate(zip(names, parameters, given, strict=True)):
            if home_of(one) is None and not isinstance(one, np.generic | int | float):
                self._refuse(f"argument {number}, a {type(one).__name__}")
            arguments[name] = one if home_of(one) is None else to_host(one, name)
            if isinstance(arguments[name], np.ndarray) and not re.search(r"\bconst\b[^*]*\*", parameter):
                written.append(name)
        return arguments, written

    def _block(self, meta: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(int(meta.get(name, one)) for name, one in zip(self.block_names, (BLOCK_X, 1, 1), strict=False))

    def _grid(self, meta: Mapping[str, Any]) -> tuple[int, ...]:
        params, size = self._chosen(meta), self.given["problem_size"]
        size = size(params) if callable(size) else size
        size = [_evaluate(one, params) for one in (size if isinstance(size, list | tuple | np.ndarray) else [size])]
        divisors = [
            params.get(name, 1) if given is None else _evaluate(given, params)
            for given, name in zip((self.given[f"grid_div_{axis}"] for axis in "xyz"), self.block_names, strict=False)
        ]
        return tuple(math.ceil(one / divisor) for one, divisor in zip([*size, 1, 1], divisors, strict=False))

    def _list_macros(self) -> dict[str, Callable[..., Any]]:
        """Return what else is defined: what the script says, or the sizes of block and grid."""
        given = self.given.get("defines")
        if given is not None:
            return {name: lambda meta, one=one: _define(one, self._chosen(meta)) for name, one in given.items()}
        sizes: dict[str, Callable[..., Any]] = {
            name: lambda meta, n=n: self._block(meta)[n] for n, name in enumerate(self.block_names)
        }
        sizes |= {f"grid_size_{axis}": lambda meta, n=n: self._grid(meta)[n] for n, axis in enumerate("xyz")}
        return {**sizes, "kernel_tuner": lambda: 1}

    def _chosen(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        return {name: meta[name] for name in self.params}

    def _read_restriction(self, restriction: Any) -> Any:
        if isinstance(restriction, str):
            return restriction
        if not callable(restriction):
            self._refuse(f"a restriction that is a {type(restriction).__name__}")
        return lambda problem, tune: None if restriction(dict(tune)) else "not allowed by its restriction"

    def _reference(self, *_: Any) -> dict[str, Any]:
        """Return the answer; what it leaves out need not be written."""
        found: dict[str, Any] = {}
        for name in self.written:
            own, answer = self.arguments[name], self.answer[name]
            absent = answer is None
            found[name] = np.ma.masked_array(own, True) if absent else to_host(answer, name).reshape(own.shape)
        return found

    def _verify(self, **known: Any) -> bool:
        host = [known.get(name) for name in self.arguments]
        return bool(np.all(self.given["verify"](self.given["answer"], host, atol=self.given["atol"])))

    def _hold_to_first(self, **known: Any) -> str | None:
        """Return what is not as in the first execution, within what sums in another order may differ by; or None.

        Where configurations write different numbers of elements, as with one partial sum a block, their sums count.
        """
        self.first = self.first or {name: known[name].copy() for name in self.written}
        arrays = {n: Array(one.shape, one.dtype) for n, one in self.arguments.items() if isinstance(one, np.ndarray)}
        other = {name: array for name, array in self.first.items() if not np.array_equal(array, known[name])}
        buffers, terms = Buffers({}, {name: arrays[name] for name in other}), longest_sum(Buffers(arrays, arrays))
        for name, bound in by_type(buffers, other, terms, is_exact=False).items():
            result, first = known[name], other[name]
            far = ~np.isclose(result, first, bound.relative, bound.absolute, equal_nan=True)
            if far.any() and not _is_partial(result, first, known[f"{name}_before"], bound):
                return f"{far.sum()} of {far.size} elements of {name} are not what the first configuration gave"
        return None

    def _refuse(self, what: str) -> None:
        taken = "CUDA and OpenCL kernels from a text or a file, with arrays, numbers, constant and shared memory, are"
        raise FamilyError(f"{self.script}: {what} of tune_kernel is not supported; {taken}")


class _Judge:
    """Call a function with results and inputs by name, all or these; the class's name is part of an identity."""

    def __init__(self, function: Callable[..., Any], names: Iterable[str] | None = None) -> None:
        self.function = function
        if names is not None:
            self.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in names])

    def __call__(self, **known: Any) -> Any:
        return self.function(**known)


def _is_partial(result: np.ndarray, first: np.ndarray, before: np.ndarray, bound: Tolerance) -> bool:
    """Return whether two results are different numbers of parts of one sum: as many as there are blocks."""
    one, other = (int(np.count_nonzero(each != before)) for each in (result, first))
    total, wanted = (float(np.sum(each - before, dtype=np.float64)) for each in (result, first))
    most = max(one, other) * float(np.max(bound.absolute))
    return one != other and math.isclose(total, wanted, rel_tol=bound.relative, abs_tol=most)


def _evaluate(given: Any, params: Mapping[str, Any]) -> float:
    """Return a number, the value of a function or an expression of tunables, or the product of several."""
    if callable(given):
        return float(given(params))
    if isinstance(given, list | tuple):
        return math.prod(_evaluate(one, params) for one in given)
    if isinstance(given, str):
        given = params[given] if given in params else eval(given.strip(), {}, dict(params))
    return int(given)


def _define(given: Any, params: Mapping[str, Any]) -> Any:
    text = str(given(params) if callable(given) else given)
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda word: str(params.get(word[0], word[0])), text)


def _find_call(script: Path) -> dict[str, Any]:
    """Return the arguments of a script's first call of `tune_kernel`; raise `FamilyError` if it makes none."""
    finder, folder = _Finder(), script.parent
    sys.meta_path.insert(0, finder)
    try:  # what the script prints is no result of ours
        with as_if_alone(script), own_imports([folder], [TUNER]), chdir(folder), redirect_stdout(sys.stderr):
            runpy.run_path(str(script), run_name="__main__")
    except _CallError as call:
        found: dict[str, Any] = call.args[0]
        return found
    except (Exception, SystemExit) as error:
        raise FamilyError(blame(error, folder, str(script))) from error
    finally:
        sys.meta_path.remove(finder)
    raise FamilyError(f"{script} calls no kernel_tuner.tune_kernel; nothing in it can be swept")


class _CallError(BaseException):
    """Leaves the script, past whatever catches exceptions, with the call's arguments."""


def tune_kernel(
    kernel_name: Any,
    kernel_source: Any,
    problem_size: Any,
    arguments: Any,
    tune_params: Any,
    *further: Any,
    **named: Any,
) -> None:
    """Take the call's arguments; those that say how Kernel Tuner searches and measures are ignored later."""
    given = {**locals(), **dict.fromkeys(OPTIONAL), "atol": ATOL}
    raise _CallError({**given, **dict(zip(OPTIONAL, further, strict=False)), **named})


class _Unknown:
    """Stand for an argument as `run_kernel` would have left it: no kernel is launched while a script is read."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_: Any) -> Any:
        raise NotImplementedError("what kernel_tuner.run_kernel gives is not known here; compute it on the host")

    __array__ = __getitem__ = __iter__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse


class _KernelTuner(ModuleType):
    """Kernel Tuner or one of its modules; any other name that a script takes from it is a class that does nothing."""

    tune_kernel = staticmethod(tune_kernel)

    @staticmethod
    def run_kernel(kernel: Any, source: Any, size: Any, arguments: Any, *_: Any, **named: Any) -> list[_Unknown]:
        """Return a stand-in for each result."""
        return [_Unknown() for _ in arguments]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *given, **named: None})


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] == TUNER else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _KernelTuner(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
