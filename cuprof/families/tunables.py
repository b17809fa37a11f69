"""What tunables may be: constraints, and the list of `@triton.autotune`, whose configurations alone are tried.

A process of its own imports a file for its list: planning needs no Triton, and a list that depends on the device sees
the device. The answer is kept on disk until the file or Triton changes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, TypeAlias

from cuprof.core.errors import FamilyError
from cuprof.core.point import Coordinate, Point
from cuprof.core.processes import child_environment
from cuprof.core.project import user_cache
from cuprof.core.scratch import ScratchFolder
from cuprof.families.sources import read_variant_source
from cuprof.families.toolchain import get_version, is_installed

Constraint = Callable[[Point, Point], str | None]
"""Takes (problem, tunables) and returns why the combination is not allowed, or None if it is."""
GivenConstraint: TypeAlias = "str | Callable[..., Any] | Sequence[str | Callable[..., Any]] | None"
Configurations = Sequence[Mapping[str, Coordinate]]

FUNCTIONS = {each.__name__: each for each in (abs, all, any, bool, divmod, float, int, len, max, min, pow, round, sum)}
"""Functions that a constraint's text may call."""
DEFAULTS: dict[str, Coordinate | None] = {"num_ctas": 1, "maxnreg": None}
"""Options that become no tunable if every configuration has this value."""
PATIENCE_S = 120


def read_constraint(given: GivenConstraint, known: Sequence[str]) -> Constraint | None:
    """Return constraints as one function (problem, tunables) → reason or None.

    Args:
        given: a text is a condition that must hold. A function whose parameters are all `known` gets their values, and
            returns whether they are allowed, or why not; any other function gets (problem, tunables).
        known: the tunables and the problem axes.

    Raises:
        FamilyError: a text is not an expression, or uses an unknown name.
    """
    if given is None:
        return None
    if isinstance(given, str):
        names, function = _compile(given, known)
        return partial(_explain, names, function, f"not {given.strip()}")
    if isinstance(given, Sequence):
        parts = [part for part in (read_constraint(each, known) for each in given) if part is not None]
        return lambda problem, tunables: next((said for part in parts if (said := part(problem, tunables))), None)
    names = tuple(inspect.signature(given).parameters)
    is_by_name = names and {*names} <= {*known}
    return partial(_explain, names, given, "its constraint does not hold") if is_by_name else given


def _explain(
    names: Sequence[str], function: Callable[..., Any], reason: str, problem: Point, tunables: Point
) -> str | None:
    found = function(*[tunables[name] if name in tunables else problem[name] for name in names])
    return found if isinstance(found, str) else None if found is None or found else reason


def _compile(text: str, known: Sequence[str]) -> tuple[tuple[str, ...], Callable[..., Any]]:
    """Return the known names that an expression uses, and a function of them."""
    try:
        used = compile(text.strip(), "<constraint>", "eval").co_names
        names = tuple(name for name in known if name in used)
        function: Callable[..., Any] = eval(
            f"lambda {', '.join(names)}: ({text.strip()}\n)", {"__builtins__": FUNCTIONS}
        )
    except (SyntaxError, ValueError) as error:
        raise FamilyError(f"constraint {text!r} is not an expression: {error.args[0]}") from None
    if unknown := set(used) - {*known} - FUNCTIONS.keys():
        raise FamilyError(f"constraint {text!r} names {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return names, function


def list_tunables(configurations: Configurations) -> dict[str, tuple[Coordinate, ...]]:
    """Return the values of each parameter in the order in which the configurations name them, the default first."""
    names = dict.fromkeys(name for each in configurations for name in each)
    values = {name: tuple(dict.fromkeys(each[name] for each in configurations if name in each)) for name in names}
    return {name: found for name, found in values.items() if found != (DEFAULTS.get(name, ...),)}


def explain_unlisted(
    configurations: Configurations, further: Collection[str], problem: Point, tunables: Point
) -> str | None:
    """Return why tunables are not allowed if no configuration has their values; `further` ones are in none."""
    own = {name: value for name, value in tunables.items() if name not in further}
    if any(all(each.get(name) == value for name, value in own.items()) for each in configurations):
        return None
    return f"not among the {len(configurations)} configurations of @triton.autotune"


def read_configurations(file: Path, kernel: str) -> Configurations:
    """Return the configurations of a kernel in a file; none where Triton is not installed.

    What cannot be imported, has no such kernel, or one without a list that is allowed, raises `FamilyError`.
    """
    if not is_installed("triton"):
        return ()
    text = read_variant_source(file, file.parent)
    key = hashlib.sha256(json.dumps([text, kernel, get_version("triton"), sys.version]).encode()).hexdigest()
    kept = user_cache() / "triton" / f"{key}.json"
    with suppress(OSError, ValueError):
        found: Configurations = json.loads(kept.read_text())
        return found
    found = _ask(file, kernel)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found))
    return found


def _ask(file: Path, kernel: str) -> Configurations:
    with ScratchFolder() as folder:
        answer, log = Path(folder, "answer.json"), Path(folder, "log")
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()", str(file), kernel, str(answer)]
        with log.open("w") as said:  # a file and no pipe: a process that the file starts would keep a pipe open
            streams: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": said}
            try:
                done = subprocess.run(command, **streams, env=child_environment(), timeout=PATIENCE_S, check=False)
            except subprocess.TimeoutExpired:
                what = f"importing it for {kernel}'s configurations"
                raise FamilyError(f"{file}: {what} took over {PATIENCE_S} s") from None
        if answer.exists():
            found: Configurations = json.loads(answer.read_text())
            return found
        reason = log.read_text(errors="replace").strip().rpartition("\n")[2]
    reason = reason or f"its process ended with exit code {done.returncode}"
    raise FamilyError(f"{file}: the configurations of {kernel} cannot be read: {reason}")


def main() -> None:
    """Write the configurations of a kernel as JSON."""
    file, kernel, answer = sys.argv[1:]
    module = import_kernels(Path(file))
    try:
        found = list_configurations(find_kernel(module, kernel))
    except (FamilyError, ValueError) as error:
        sys.exit(str(error))
    if not found:
        sys.exit(f"no @triton.autotune decorates {kernel}; state tunables= instead")
    Path(answer).write_text(json.dumps(found))


def import_kernels(file: Path) -> Any:
    """Import a Python file of Triton kernels as a module of a package, so that it can import files beside it."""
    package = ModuleSpec("_cuprof_triton", None, is_package=True)
    package.submodule_search_locations = [str(file.parent)]
    sys.modules[package.name] = importlib.util.module_from_spec(package)
    return importlib.import_module(f"{package.name}.{file.stem}")


def find_kernel(module: Any, kernel: str) -> list[Any]:
    """Return a kernel's decorators, outermost first, and its `@triton.jit` function; raise `ValueError` without one."""
    layers = list_layers(getattr(module, kernel, None))
    if not layers:
        names = [name for name, value in vars(module).items() if hasattr(value, "fn")]
        raise ValueError(f"there is no @triton.jit function {kernel}; there are {', '.join(names) or 'none'}")
    return layers


def list_layers(function: Any) -> list[Any]:
    """Return the decorators of a Triton function, the outermost first, and the function; else an empty list."""
    layers: list[Any] = []
    while type(function).__module__.partition(".")[0] == "triton" and hasattr(function, "fn"):
        layers.append(function)
        function = function.fn
    return layers


def list_configurations(layers: Sequence[Any]) -> Configurations:
    """Return the configurations that `@triton.autotune` tries; none where it is not among the layers.

    Raises:
        FamilyError: a configuration has a hook, which cuprof does not run, or a value that no tunable can have.
    """
    configs: Sequence[Any] = next((layer.configs for layer in layers if hasattr(layer, "configs")), [])
    if any(each.pre_hook is not None for each in configs):
        instead = "remove it, and do its work in the kernel or by setup="
        raise FamilyError(f"a configuration of @triton.autotune has a pre_hook, which cuprof does not run; {instead}")
    found = [each.all_kwargs() for each in configs]
    for name, value in (pair for each in found for pair in each.items()):
        if not isinstance(value, int | float | str):
            taken = "give a number, a text, True or False"
            raise FamilyError(f"a configuration of @triton.autotune has {name}={value!r}; {taken}")
    return found
