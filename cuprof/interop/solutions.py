"""A solution's function: its sources go into a folder named by their content, and are imported or compiled there."""

from __future__ import annotations

import errno
import hashlib
import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from cuprof.core.errors import BuildError
from cuprof.core.project import user_cache
from cuprof.core.scratch import write_whole
from cuprof.families.origin import own_imports, run_module
from cuprof.families.syntax import imported_names
from cuprof.interop.schema import CompileOptions, Solution, parse_python

SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c")
_OF_A_COMPILER = re.compile(r"\berror\b *[:#]")
_BY_PYBIND = re.compile(r"\w+(\(.*\)) -> ")
_PARAMETER = re.compile(r"[(,] ?\w+: ")
"""What pybind11 writes into a function's `__doc__`: "run(x: torch.Tensor, eps: float = 1e-05) -> torch.Tensor"."""
_REFUSED: dict[Path, BuildError] = {}
"""What did not compile: a builder that failed once takes its module for built."""


def content_of(solution: Solution) -> str:
    """Return what decides what a solution does, as text."""
    return json.dumps(msgspec.to_builtins([solution.spec, solution.sources]), sort_keys=True)


def load_function(solution: Solution) -> Callable[..., Any]:
    """Return the function of the entry point; raise `BuildError` where there is none, or a compiler refused."""
    file, _, name = solution.spec.entry_point.partition("::")
    load = _load_compiled if solution.spec.is_compiled else _import
    function = getattr(load(_unpack(solution), file, solution), name, None)
    if not callable(function):
        raise BuildError(f"{solution.name}: {file} has no function {name}")
    return function  # type: ignore[no-any-return]


def takes_outputs(solution: Solution, function: Callable[..., Any], inputs: int) -> bool:
    """Return whether a solution's function also takes the outputs, after this number of inputs."""
    if solution.spec.destination_passing_style is not None:
        return solution.spec.destination_passing_style
    if solution.spec.is_compiled:
        declared = _BY_PYBIND.match(function.__doc__ or "")
        return declared is None or len(_PARAMETER.findall(declared[1])) > inputs
    kinds = [one.kind.name for one in inspect.signature(function).parameters.values()]
    return "VAR_POSITIONAL" in kinds or len(kinds) > inputs


def list_modules(solution: Solution) -> tuple[str, ...]:
    """Return the installed modules that a solution needs, apart from its own; raise `BuildError` if not Python."""
    if solution.spec.is_compiled:
        return ("tvm_ffi", "ninja") if solution.binding == "tvm-ffi" else ("torch", "ninja")
    found: set[str] = set()
    for source in solution.sources:
        if source.path.endswith(".py"):
            try:
                tree = parse_python(source.content, f"{solution.name}: {source.path}")
            except ValueError as error:
                raise BuildError(str(error)) from None
            # an import inside a function may be an alternative
            found |= {name.partition(".")[0] for statement in tree.body for name in imported_names(statement)}
    return tuple(sorted(found - _own_modules(solution) - sys.stdlib_module_names - {""}))


def _own_modules(solution: Solution) -> set[str]:
    return {Path(source.path).parts[0].removesuffix(".py") for source in solution.sources}


def _unpack(solution: Solution) -> Path:
    """Write the sources, whole or not at all, where nobody else may write: Triton and compilers want files."""
    place = user_cache() / "solutions"
    folder = place / hashlib.sha256(content_of(solution).encode()).hexdigest()[:24]
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if place.stat().st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user")
        place.chmod(0o700)
        for source in solution.sources:
            file, content = folder / source.path, source.content.encode()
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.is_file() or file.read_bytes() != content:
                write_whole(file, content)
    except OSError as error:
        remedy = "set XDG_CACHE_HOME to a folder of yours with space, or shorten its paths"
        raise BuildError(f"{solution.name} cannot be written to {place} ({error.strerror}); {remedy}") from None
    return folder


def _import(folder: Path, file: str, solution: Solution) -> Any:
    """Import a Python source as if its folder were the working one; nothing else sees its modules afterwards."""
    name = f"_cuprof_solution_{folder.name}"
    if name in sys.modules:
        return sys.modules[name]
    with own_imports([folder, folder / "src"], _own_modules(solution)):
        try:
            return run_module(name, folder / file)
        except SyntaxError as error:
            place = f"{Path(error.filename or file).name}, line {error.lineno}"
            raise BuildError(f"{solution.name}: {place}: {error.msg}") from None


def _load_compiled(folder: Path, file: str, solution: Solution) -> Any:
    """Compile with PyTorch's or TVM's own builder, which keeps its result as long as the sources stay."""
    if folder in _REFUSED:
        raise _REFUSED[folder]
    options = solution.spec.compile_options or CompileOptions()
    sources = [str(folder / source.path) for source in solution.sources if source.path.endswith(SUFFIXES)]
    cuda = [each for each in sources if each.endswith(".cu")]
    (folder / "build").mkdir(exist_ok=True)
    shared: dict[str, Any] = {
        "name": f"solution_{folder.name}",
        "extra_include_paths": [str(folder)],
        "extra_cflags": options.cflags,
        "extra_cuda_cflags": options.cuda_cflags,
        "extra_ldflags": options.ld_flags,
        "build_directory": str(folder / "build"),
    }
    try:
        if solution.binding == "tvm-ffi":
            build = importlib.import_module("tvm_ffi.cpp").build
            library = build(cpp_files=[each for each in sources if each not in cuda], cuda_files=cuda, **shared)
            return importlib.import_module("tvm_ffi").load_module(library)
        torch = importlib.import_module("torch")
        if torch.cuda.is_available():  # for this device alone, which takes a fraction of the time
            os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "{}.{}".format(*torch.cuda.get_device_capability()))
        load = importlib.import_module("torch.utils.cpp_extension").load
        return load(sources=sources, with_cuda=bool(cuda) or "cpp" not in solution.spec.language, **shared)
    except (RuntimeError, OSError) as error:
        said = str(error)
        first = next((line for line in said.splitlines() if _OF_A_COMPILER.search(line)), said.partition("\n")[0])
        _REFUSED[folder] = BuildError(f"{solution.name} ({file}) does not compile: {first.strip()}", said)
        raise _REFUSED[folder] from error
