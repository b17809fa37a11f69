"""Call functions of a shared library that was built of a variant's source."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuprof.core.errors import LaunchError
from cuprof.families import Invoke


def load_library(image: bytes, name: str) -> ctypes.CDLL:
    """Load a shared library; it stays loaded as long as the process.

    Its file has a name of its own, since the loader takes two files of one name for the same library.

    Raises:
        LaunchError: the loader refused.
    """
    with tempfile.NamedTemporaryFile(prefix="cuprof-library-", suffix=".so") as file:
        file.write(image)
        file.flush()
        try:
            return ctypes.CDLL(file.name)
        except OSError as error:
            said = str(error).replace(f"{file.name}: ", "")
            raise LaunchError(f"load the library of {name}: {said}") from None


def bind(
    library: ctypes.CDLL, step: Invoke, arguments: Sequence[int | np.generic], *, is_void: bool = False
) -> Callable[[], None]:
    """Return a function that calls one of the library's with these arguments, and raises where it does not return 0.

    Args:
        arguments: addresses as Python ints, scalars and structs as NumPy has them.
        is_void: it returns nothing.
    """
    try:
        function = getattr(library, step.function)
    except AttributeError:
        said = f'there is no function {step.function} (is it extern "C"?)'
        raise LaunchError(f"{said}; cuprof.kernel(FUNCTION, name=…) names variants otherwise") from None
    as_ctypes: Any = np.ctypeslib.as_ctypes_type
    cells = [
        ctypes.c_void_p(value) if isinstance(value, int) else as_ctypes(value.dtype).from_buffer_copy(value.tobytes())
        for value in arguments
    ]
    function.argtypes, function.restype = [type(cell) for cell in cells], None if is_void else ctypes.c_int

    def invoke() -> None:
        status = function(*cells)
        if status:
            raise LaunchError(f"{step.function} returned {status}; it returns an int, 0 where all went well")

    return invoke
