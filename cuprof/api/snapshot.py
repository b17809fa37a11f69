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
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import IO, Any

import cloudpickle

from cuprof.core.errors import UsageError
from cuprof.families import Family
from cuprof.families.origin import Snapshot, restore_code
from cuprof.families.syntax import imported_files, is_cell
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
        pickle.dump({name: linecache.getlines(name) for name in [*linecache.cache] if is_cell(name)}, stream)
        try:
            pickler.dump(family)
        except Exception as error:
            raise UsageError(
                f"an argument of cuprof.compare cannot be passed to the process that measures ({error}); create the "
                "object in the function that uses it, or put the call into a file: cuprof sweep FILE.py"
            ) from error
    known = imported_files(family.path) if family.path is not None else []
    # the text of a variant says nothing of these
    elsewhere = [str(file) for file in pickler.files if file not in known]
    for name, variant in family.variants.items():
        family.variants[name] = replace(variant, files=(*variant.files, *elsewhere))
    family.origin = Snapshot(path, tuple(sys.path), pickler.files)
    family.code = family.origin.digests()
    return family


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickle functions and classes of the script by value."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        self._texts: dict[Path, None] = {}
        self._modules: dict[Path, None] = {}

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files of the user's own that are read when the pickle is loaded.

        These are those in which Triton looks for its functions, and the modules that it imports, with what they import.
        """
        return (*{**self._texts, **self._modules},)

    def reducer_override(self, value: Any) -> Any:
        """Return how to rebuild an object whose library does not pickle it."""
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(value, FunctionType | type | ModuleType) and name in sys.modules and name != "__main__":
            self._note_module(sys.modules[name])
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
            file = Path(inspect.unwrap(value.fn).__code__.co_filename).resolve()
            self._texts |= {file: None} if file.is_file() else {}
            told = {key: getattr(value, key) for key in JIT_OPTIONS if hasattr(value, key)}
            return partial(kind, **told), (value.fn,)
        return super().reducer_override(value)

    def _note_module(self, module: ModuleType) -> None:
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).resolve() not in self._modules and own_folder(module) is not None:
            self._modules |= dict.fromkeys(imported_files(Path(file).resolve()))
