"""A comparison of a script or a notebook, pickled by value for the process that measures it.

The process that plans works with the family itself. Only the worker unpickles, and only a file in a
private folder of this process. The pickle is never hashed: two runs of one script give different bytes.
"""

from __future__ import annotations

import inspect
import io
import linecache
import operator
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import IO, Any

import cloudpickle

from cuprof.core.errors import UsageError
from cuprof.families import Family
from cuprof.families.origin import Snapshot, restore_code
from cuprof.families.syntax import imported_files
from cuprof.families.triton_text import own_folder

JIT_OPTIONS = ("do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline", "launch_metadata")
"""The options of `@triton.jit`, as a function of Triton's keeps them."""


def find_script() -> Path | None:
    """Return the script that Python runs; None in a notebook, in the interpreter and where an installed module runs."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    return Path(file).resolve() if file is not None and own_folder(main) is not None else None


def take_snapshot(family: Family, folder: Path) -> Family:
    """Write a family into a folder and return it with the origin that a worker loads it from.

    Modules of the user's own are imported by the worker, so their contents are part of what results are known by.

    Raises:
        UsageError: an object cannot be pickled.
    """
    path = folder / "snapshot.pickle"
    with path.open("wb") as stream:
        pickler = _Pickler(stream)
        pickle.dump(_read_cells(), stream)
        try:
            pickler.dump(family)
        except Exception as error:
            raise UsageError(
                f"an argument of cuprof.compare cannot be passed to the process that measures ({error}); create the "
                "object in the function that uses it, or put the call into a file: cuprof sweep FILE.py"
            ) from error
    known = imported_files(family.path) if family.path is not None else []
    files = tuple(pickler.list_files())
    elsewhere = [str(file) for file in files if file not in known]  # the text of a variant says nothing of these
    for name, variant in family.variants.items():
        family.variants[name] = replace(variant, files=(*variant.files, *elsewhere))
    family.origin = Snapshot(path, tuple(sys.path), files)
    family.code = family.origin.digests()
    return family


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickle functions and classes of the script by value, and remember the modules of the user's own."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        self._modules: dict[str, ModuleType] = {}
        self._texts: list[Path] = []

    def reducer_override(self, value: Any) -> Any:
        """Return how to rebuild an object whose library does not pickle it."""
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(value, FunctionType | type | ModuleType) and name in sys.modules and name != "__main__":
            self._modules[name] = sys.modules[name]
        if isinstance(value, FunctionType) and hasattr(value, "_torchdynamo_orig_callable"):
            context = inspect.getclosurevars(value).nonlocals["self"]
            return operator.call, (context, value._torchdynamo_orig_callable)
        if isinstance(value, CodeType):  # cloudpickle drops the file's name, and Triton reads the file
            make, arguments = self.dispatch_table[CodeType](value)[:2]
            file = Path(value.co_filename)
            return restore_code, (make, arguments, str(file.absolute() if file.exists() else file))
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.jit.ScriptModule | torch.jit.ScriptFunction):
            torch.jit.save(value, content := io.BytesIO())
            return torch.jit.load, (io.BytesIO(content.getvalue()),)
        kind: Any = type(value)
        if kind.__module__.partition(".")[0] == "triton" and hasattr(value, "fn") and hasattr(value, "params"):
            self._texts.append(Path(inspect.unwrap(value.fn).__code__.co_filename).absolute())
            told = {key: getattr(value, key) for key in JIT_OPTIONS if hasattr(value, key)}
            return partial(kind, **told), (value.fn,)
        return super().reducer_override(value)

    def list_files(self) -> Iterator[Path]:
        """Return the files of the user's own that are read when the pickle is loaded.

        These are the modules that it imports, with what they import, and those in which Triton looks for its functions.
        """
        found = dict.fromkeys(file.resolve() for file in self._texts if file.is_file())
        for module in self._modules.values():
            if own_folder(module) is not None:
                found |= dict.fromkeys(imported_files(Path(str(module.__file__)).resolve()))
        yield from found


def _read_cells() -> dict[str, list[str]]:
    """Return the lines of a notebook's cells, by Python's name for each cell."""
    names = [name for name, entry in linecache.cache.items() if len(entry) > 1 and entry[1] is None]
    return {name: linecache.getlines(name) for name in names}
