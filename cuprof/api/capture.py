"""Write functions of a notebook or a script, and the arrays that they are given, to where a worker can load them.

A function enters as its text, with all that it uses from the module that it was typed into, in an order in which each
thing is there when it is needed. What comes from an importable module is imported, arrays lie beside in NumPy's format.
So the file is a family like any other, and nothing is unpickled.
"""

from __future__ import annotations

import argparse
import builtins
import functools
import hashlib
import io
import math
import os
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from cuprof.api.frameworks import home_of, to_host
from cuprof.api.kernels import Kernel
from cuprof.api.origins import find_import, unwrap
from cuprof.api.typed_text import class_text, definition_text, without_defaults
from cuprof.core.errors import UsageError
from cuprof.families import Copy, Fill, Reduced
from cuprof.families.functions import closure_of, plain_text
from cuprof.families.modules import global_names, imported_files
from cuprof.families.trace import NO_ORIGIN, origin_line

HEADER = '''"""Written by cuprof.compare: what it was given."""

from pathlib import Path

import numpy

import cuprof
'''
_INSTALLED = (
    *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    Path(__file__).resolve().parents[1],
)

_PLAIN = Kernel()
_PARTS = (
    "name", "backend", "compiler", "grid", "block", "threads", "shared_bytes", "args", "constants", "options",
    "scratch", "results", "setup", "derived",
)  # fmt: skip


class Capture:
    """Gather what expressions of one call stand for, and write it as a Python file."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.arrays: dict[str, bytes] = {}
        self.folders: dict[str, None] = {}
        self.files: dict[str, None] = {}
        self._origins: dict[int, str] = {}
        self._names: dict[str, Any] = {"cuprof": sys.modules["cuprof"]}

    def express(self, value: Any, wanted: str) -> str:
        """Return Python text that stands for a value in the file.

        Args:
            wanted: what to call it where it needs a name.

        Raises:
            UsageError: it cannot be told in text: an object of a class that no module has, or two things of one name.
        """
        if isinstance(value, Kernel):
            return self._express_kernel(value, wanted)
        if isinstance(value, tuple | list):
            parts = [self.express(one, f"{wanted}_{number}") for number, one in enumerate(value)]
            text = ", ".join(parts) + ("," if len(parts) == 1 else "")
            return f"({text})" if isinstance(value, tuple) else f"[{text}]"
        if isinstance(value, Copy | Fill | Reduced):
            return f"cuprof.{value!r}"
        if isinstance(value, dict):
            parts = [f"{key!r}: {self.express(one, f'{wanted}_{key}')}" for key, one in value.items()]
            return f"{{{', '.join(parts)}}}"
        plain = _literal(value)
        if plain is not None:
            return plain
        if (triton := _triton_text(value)) is not None:
            self._bind("triton", sys.modules["triton"])
            return triton
        if type(value) is functools.partial:
            self._bind("functools", functools)
            given = [self.express(one, f"{wanted}_{number}") for number, one in enumerate((value.func, *value.args))]
            given += [f"{key}={self.express(one, f'{wanted}_{key}')}" for key, one in value.keywords.items()]
            return f"functools.partial({', '.join(given)})"
        if isinstance(value, MethodType) and _is_own_object(value.__self__):
            return f"{self.express(value.__self__, f'{wanted}_self')}.{value.__name__}"
        name = next((known for known, one in self._names.items() if one is value), "")
        return name or self._bind(self._free_name(value, wanted), value)

    def write(self, folder: Path, name: str, call: str) -> Path:
        """Write the file with its call and the arrays; return its path, which tells contents apart.

        Args:
            folder: of all files of this kind.
        """
        search = [f"import sys\n\nsys.path += {list(self.folders)!r}\n"] if self.folders else []
        lines = [self._origins.get(number, NO_ORIGIN) + line for number, line in enumerate([*self.lines, call])]
        text = "\n".join([HEADER, *search, *lines])
        digest = hashlib.sha256(text.encode())
        for key, content in sorted(self.arrays.items()):
            digest.update(key.encode() + content)
        place = folder / digest.hexdigest()[:16]
        if not place.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as made:
                for key, content in self.arrays.items():
                    (Path(made) / f"{key}.npy").write_bytes(content)
                (Path(made) / f"{name}.py").write_text(text + "\n", encoding="utf-8")
                _keep(Path(made), place)
        return place / f"{name}.py"

    def _express_kernel(self, kernel: Kernel, wanted: str) -> str:
        parts = []
        for key in _PARTS:
            given = getattr(kernel, key)
            if key == "derived":
                parts += [f"{name}={self.express(one, name)}" for name, one in kernel.derived.items()]
            elif given != getattr(_PLAIN, key):
                parts.append(f"{key}={self.express(given, f'{wanted}_{key}')}")
        if kernel.constraint:
            parts.append(f"constraint={self.express(kernel.constraint, f'{wanted}_constraint')}")
        if kernel.files:
            parts.append(f"files={tuple(str(Path(file).absolute()) for file in kernel.files)!r}")
        if kernel.source:
            parts.append(f"source={kernel.source if kernel.is_text else str(Path(kernel.source).absolute())!r}")
        parts += [f"{key}={values!r}" for key, values in kernel.tunables.items()]
        function = kernel.function or kernel.jit
        what = self.express(function, wanted) if function else repr(kernel.symbol)
        if kernel.function and not parts:
            return what
        return f"cuprof.kernel({', '.join([what, *parts])})"

    def _free_name(self, value: Any, wanted: str) -> str:
        own = getattr(value, "__name__", "")
        candidates = [own, wanted, *(f"{wanted}_{number}" for number in range(2, 1000))]
        return next(name for name in candidates if name.isidentifier() and name not in self._names)

    def _bind(self, name: str, value: Any) -> str:
        """Add the lines that give a value a name."""
        if name in self._names:
            if self._names[name] is not value and not _equal(self._names[name], value):
                raise UsageError(f"two things that the functions use are called {name}; rename one of them")
            return name
        self._names[name] = value
        plain = _literal(value)
        if plain is not None:
            self.lines.append(f"{name} = {plain}")
        elif isinstance(value, ModuleType):
            self._note_origin(value)
            self.lines.append(f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}")
        elif home_of(value) is not None:
            self._bind_array(name, value)
        elif isinstance(value, Kernel):
            self.lines.append(f"{name} = {self._express_kernel(value, name)}")
        elif (found := self.find_module(value)) is not None:
            module, attribute = found
            self._note_origin(sys.modules[module])
            self.lines.append(f"from {module} import {attribute}" + (f" as {name}" if name != attribute else ""))
        elif isinstance(value, tuple | list | dict) or _triton_text(value) is not None:
            self.lines.append(f"{name} = {self.express(value, name)}")
        elif _is_own_object(value) or type(value) in (argparse.Namespace, SimpleNamespace):
            made, held = self.express(type(value), type(value).__name__), self.express(vars(value), name)
            self.lines.append(f"{name} = {made}.__new__({made})\nvars({name}).update({held})")
        else:
            self._bind_text(name, value)
        return name

    def _bind_array(self, name: str, value: Any) -> None:
        home = home_of(value)
        assert home is not None
        content = io.BytesIO()
        np.save(content, to_host(value, name), allow_pickle=False)
        self.arrays[name] = content.getvalue()
        line = f'numpy.load(Path(__file__).with_name("{name}.npy"))'
        if home.name != "numpy":
            line = f"HOMES[{home.name!r}].bring({line})"
            if (imported := "from cuprof.api.frameworks import HOMES") not in self.lines:
                self.lines.append(imported)
        self.lines.append(f"{name} = {line}")

    def find_module(self, value: Any) -> tuple[str, str] | None:
        """Return the module that a value is imported from, and its name there; None where its text is taken."""
        return find_import(value)

    def read_text(self, function: FunctionType) -> str:
        """Return the text of a function."""
        return definition_text(function)

    def _bind_text(self, name: str, value: Any) -> None:
        """Add the text of a function or class, after what it uses."""
        defaults: tuple[str, ...] = ()
        place = NO_ORIGIN
        if isinstance(value, type):
            text, own = class_text(value), value.__name__
            surroundings = vars(sys.modules[value.__module__])
        else:
            function = unwrap(value)
            if function is None or (value is not function and function.__globals__.get(function.__name__) is not value):
                raise UsageError(
                    f"{name} is a {type(value).__name__} that a call has made, which cannot be told to the process "
                    "that measures; use a decorator, make it in the function that uses it, or put it into a file"
                )
            text, own = self.read_text(function), function.__name__
            defaults = self._express_defaults(name, function) if value is function else ()
            text, code = without_defaults(text) if defaults else text, function.__code__
            if not defaults and Path(code.co_filename).is_file():
                place = origin_line(code.co_filename, code.co_firstlineno)
            surroundings = {**function.__globals__, **closure_of(function)}
        for used in sorted(global_names(text) - {own}):
            if used in surroundings and surroundings[used] is not getattr(builtins, used, surroundings):
                self._bind(used, surroundings[used])
        self._origins[len(self.lines)] = place
        self.lines.append(text if text.startswith(("def ", "class ", "@", "async ")) else f"{own} = {text}")
        if own == "<lambda>":
            self.lines[-1] = f"{name} = {text}"
        elif own != name:
            self._bind_alias(own, name, value)
        self.lines += [f"{name}.{line}" for line in defaults]

    def _express_defaults(self, name: str, function: FunctionType) -> tuple[str, ...]:
        """Return what sets the defaults that name something; none where they cannot be told but by their own text."""
        text = self.read_text(function)
        if without_defaults(text) == text:
            return ()
        try:
            return tuple(
                f"{key} = {self.express(getattr(function, key), f'{name}_default')}"
                for key in ("__defaults__", "__kwdefaults__")
            )
        except UsageError:
            return ()

    def _bind_alias(self, own: str, name: str, value: Any) -> None:
        if own in self._names and self._names[own] is not value:
            raise UsageError(f"two things that the functions use are called {own}; rename one of them")
        self._names[own] = value
        self.lines.append(f"{name} = {own}")

    def _note_origin(self, module: ModuleType) -> None:
        """Remember where a module of the user's own lies, and the files whose contents count for it."""
        folder = own_folder(module)
        if folder is not None:
            self.folders[str(folder)] = None
            self.files |= dict.fromkeys(map(str, imported_files(Path(str(module.__file__)).resolve())))


def own_folder(module: ModuleType) -> Path | None:
    """Return the folder that a module of the user's own is imported from; None for an installed one."""
    file = Path(getattr(module, "__file__", None) or "/").resolve()
    if not file.is_file() or file.suffix != ".py" or any(file.is_relative_to(place) for place in _INSTALLED):
        return None
    folder = file.parents[module.__name__.count(".") + (file.name == "__init__.py")]
    return None if any(folder.glob("*.dist-info")) else folder


def _keep(made: Path, place: Path) -> None:
    """Put a folder into its place; another process may have made the same one meanwhile."""
    try:
        os.rename(made, place)  # noqa: PTH104
    except OSError:
        if not place.exists():
            raise
    else:
        made.mkdir()  # for its context to remove


def _literal(value: Any) -> str | None:
    """Return Python text of plain data, or None."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return f"numpy.{value.dtype.name}({_literal(value.item())})"
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    if type(value) is dict:
        parts = [_joined((key, one), ": ") for key, one in value.items()]
        return None if None in parts else f"{{{', '.join(map(str, parts))}}}"
    if type(value) in (list, tuple):
        text = _joined(value, ", ")
        return text and (f"[{text}]" if type(value) is list else f"({text}{',' if len(value) == 1 else ''})")
    return None


def _triton_text(value: Any) -> str | None:
    """Return Python text of a constant for Triton's kernels, or of a configuration without a hook; or None."""
    if type(value).__module__.partition(".")[0] != "triton":
        return None
    if type(value).__name__ == "constexpr" and (plain := _literal(value.value)) is not None:
        return f"triton.language.constexpr({plain})"
    if type(value).__name__ == "Config" and value.pre_hook is None:
        options = {key: one for key, one in value.all_kwargs().items() if key not in value.kwargs and one is not None}
        return f"triton.Config({', '.join([repr(value.kwargs), *(f'{key}={one!r}' for key, one in options.items())])})"
    return None


def _joined(values: Sequence[Any], between: str) -> str | None:
    parts = [_literal(value) for value in values]
    return None if None in parts else between.join(map(str, parts))


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and plain_text(one) is not None and plain_text(one) == plain_text(other)


def _is_own_object(value: Any) -> bool:
    """Return whether a value is an object of a class of the script's own, which its class and attributes make."""
    if isinstance(value, type) or not hasattr(value, "__dict__") or unwrap(value) is not None:
        return False
    return all(find_import(one) is None for one in type(value).__mro__[:-1])
