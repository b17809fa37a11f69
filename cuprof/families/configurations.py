"""Read the list of `@triton.autotune` as tunables, with the rule that only listed configurations are tried.

A process of its own imports the file: planning needs no Triton, and a list that depends on the device sees the device.
The answer is kept on disk until the file or Triton changes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

from cuprof.core.errors import FamilyError
from cuprof.core.point import Coordinate, Point
from cuprof.core.processes import child_environment
from cuprof.core.project import user_cache
from cuprof.families.constraints import Constraint
from cuprof.families.sources import read_variant_source
from cuprof.families.toolchain import get_version, is_installed

DEFAULTS: dict[str, Coordinate | None] = {"num_ctas": 1, "maxnreg": None}
"""Options that become no tunable if every configuration has this value."""
PATIENCE_S = 120
MARK = "configurations: "

Configurations = Sequence[Mapping[str, Coordinate]]


def read_configurations(file: Path, kernel: str) -> Configurations:
    """Return the configurations of a kernel in a file; none where Triton is not installed.

    Raises:
        FamilyError: the file cannot be imported, has no such kernel, or one without `@triton.autotune`, or
            `list_configurations` refuses the list.
    """
    if not is_installed("triton"):
        return ()
    text = read_variant_source(file, file.parent)
    key = hashlib.sha256(json.dumps([text, kernel, get_version("triton"), sys.version]).encode()).hexdigest()
    kept = user_cache() / "triton" / f"{key}.json"
    try:
        found: Configurations = json.loads(kept.read_text())
    except (OSError, ValueError):
        found = _ask(file, kernel)
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found))
        except OSError:
            pass
    return found


def list_tunables(configurations: Configurations) -> dict[str, tuple[Coordinate, ...]]:
    """Return the values of each parameter in the order in which the configurations name them, the default first."""
    names = dict.fromkeys(name for each in configurations for name in each)
    values = {name: tuple(dict.fromkeys(each[name] for each in configurations if name in each)) for name in names}
    return {name: found for name, found in values.items() if found != (DEFAULTS.get(name, ...),)}


def require_listed(configurations: Configurations) -> Constraint:
    """Return the constraint that tunables are in the list."""
    return partial(_explain_absence, configurations)


def _explain_absence(configurations: Configurations, problem: Point, tunables: Point) -> str | None:
    if any(all(each.get(name) == value for name, value in tunables.items()) for each in configurations):
        return None
    return f"not among the {len(configurations)} configurations of @triton.autotune"


def _ask(file: Path, kernel: str) -> Configurations:
    command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()", str(file), kernel]
    # Files and no pipes: a process that the file starts would keep a pipe open.
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as said:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=said,
                env=child_environment(),
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise FamilyError(f"{file}: importing it for {kernel}'s configurations took over {PATIENCE_S} s") from None
        out.seek(0)
        said.seek(0)
        answers = [line for line in out if line.startswith(MARK)]
        lines = said.read().strip().splitlines() or [f"its process ended with exit code {done.returncode}"]
    if not answers:
        raise FamilyError(f"{file}: the configurations of {kernel} cannot be read: {lines[-1]}")
    found: Configurations = json.loads(answers[-1].removeprefix(MARK))
    return found


def import_kernels(file: Path) -> Any:
    """Import a Python file of Triton kernels as a module of a package, so that it can import files beside it."""
    package = ModuleSpec("_cuprof_triton", None, is_package=True)
    package.submodule_search_locations = [str(file.parent)]
    sys.modules[package.name] = importlib.util.module_from_spec(package)
    loader = SourceFileLoader(f"{package.name}.{file.stem}", str(file))
    spec = ModuleSpec(loader.name, loader, origin=str(file))
    spec.has_location = True
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def find_kernel(module: Any, kernel: str) -> list[Any]:
    """Return the decorators of a kernel, the outermost first, and then its `@triton.jit` function.

    Raises:
        ValueError: the module has no kernel of this name.
    """
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


def main() -> None:
    """Print the configurations of a kernel as JSON."""
    file, kernel = sys.argv[1:]
    module = import_kernels(Path(file))
    try:
        found = list_configurations(find_kernel(module, kernel))
    except (FamilyError, ValueError) as error:
        sys.exit(str(error))
    if not found:
        sys.exit(f"no @triton.autotune decorates {kernel}; state tunables= instead")
    sys.stdout.write(f"\n{MARK}{json.dumps(found)}\n")
