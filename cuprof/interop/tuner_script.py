"""Run a script of Kernel Tuner's up to its call of `tune_kernel`, and return the call's arguments.

Nothing is tuned and nothing behind the call runs. Kernel Tuner itself need not be installed.
"""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from cuprof.core.errors import FamilyError
from cuprof.families.origin import as_if_alone, own_imports
from cuprof.families.syntax import imported_names, parse_file
from cuprof.families.trace import blame

ROOT = "kernel_tuner"
REQUIRED = ("kernel_name", "kernel_source", "problem_size", "arguments", "tune_params")
OPTIONAL = ("grid_div_x", "grid_div_y", "grid_div_z", "restrictions", "answer", "atol", "verify", "verbose", "lang")
"""Parameters of `tune_kernel`, in Kernel Tuner 1.x's order."""
ATOL = 1e-6
"""Kernel Tuner's default."""


def is_tuner_script(file: Path) -> bool:
    """Return whether a Python file imports Kernel Tuner, and nothing of cuprof."""
    if not file.is_file() or ROOT.encode() not in file.read_bytes():
        return False
    roots = {name.partition(".")[0] for node in ast.walk(parse_file(file).tree) for name in imported_names(node)}
    return ROOT in roots and "cuprof" not in roots


def find_call(script: Path) -> dict[str, Any]:
    """Return the arguments of a script's first call of `tune_kernel`, by name.

    Raises:
        FamilyError: the script raises, or makes no such call.
    """
    try:
        with as_if_alone(script), own_imports([script.parent], [ROOT]), chdir(script.parent), _kernel_tuner_replaced():
            runpy.run_path(str(script), run_name="__main__")
    except _CallError as call:
        return call.arguments
    except (Exception, SystemExit) as error:
        raise FamilyError(blame(error, script.parent, str(script))) from error
    raise FamilyError(f"{script} calls no kernel_tuner.tune_kernel; nothing in it can be swept")


class _CallError(BaseException):
    """Leaves the script, past whatever catches exceptions."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments


def tune_kernel(*given: Any, **named: Any) -> None:
    """Take the call's arguments; those that say how Kernel Tuner searches and measures are ignored later."""
    said = dict(zip((*REQUIRED, *OPTIONAL), given, strict=False)) | named
    if absent := [name for name in REQUIRED if name not in said]:
        raise TypeError(f"tune_kernel() is called without {', '.join(absent)}")
    raise _CallError({**dict.fromkeys(OPTIONAL), "atol": ATOL, **said})


class Unknown:
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
    def run_kernel(kernel: Any, source: Any, size: Any, arguments: Any, *_: Any, **named: Any) -> list[Unknown]:
        """Return a stand-in for each result."""
        return [Unknown() for _ in arguments]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *given, **named: None})


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] == ROOT else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _KernelTuner(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def _kernel_tuner_replaced() -> Iterator[None]:
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        with redirect_stdout(sys.stderr):  # what the script prints is no result of ours
            yield
    finally:
        sys.meta_path.remove(finder)
