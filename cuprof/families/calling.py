"""Functions on arrays of a library as variants: named, bound to a session's arrays, their results brought back."""

from __future__ import annotations

import inspect
import random
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice, takewhile
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from cuprof.core.errors import UsageError
from cuprof.core.text import list_first
from cuprof.families import fingerprint
from cuprof.families.arrays import HOMES, Home, describe, home_of
from cuprof.families.kernel import Kernel
from cuprof.families.model import Arrays, Axis, Call, Sample
from cuprof.families.origin import PREFIX
from cuprof.families.program import Array
from cuprof.families.validation import COMPILED

FILLERS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
GENERATOR = "rng"
"""The parameter of an inputs function that receives a seeded NumPy generator."""
GIVEN = Axis("inputs", "given", choices=("given",), description="arrays that were given once, permuted for each set")


def bind(
    function: Any,
    sample: Sample,
    numbers: Mapping[str, Any],
    tunables: Mapping[str, Any],
    session: Arrays,
    put: Callable[[Any], None] | None = None,
) -> Any:
    """Return the call to time: a function alone, on a session's inputs and outputs.

    Args:
        sample: the order of its arguments, and the arrays among them.
        numbers: its arguments that are no arrays.
        put: copies what it returns into the outputs; without it, the function writes them.
    """
    home, specs = HOMES[sample.home], {**sample.signature.inputs, **sample.signature.outputs}
    arranged = arrange(function, sample.arguments, tunables) if sample.by_name else None
    placed, named = arranged or (sample.arguments, [])

    def give() -> Callable[[], Any]:
        views = {name: home.view(session[name], specs[name].type) for name in (*placed, *named) if name in session}
        known = {**numbers, **views}
        by_name = {name: known[name] for name in named}
        return partial(function, *(known[name] for name in placed), **by_name, **tunables)

    # A library apart orders its work behind ours whenever it is given an array.
    run = (lambda: home.finish(give()())) if home.is_apart else give()
    module = find_module(function)
    state = {} if module is None else {**dict(module.named_parameters()), **dict(module.named_buffers())}
    if put is None and not state:
        return run
    before = {name: each.detach().clone() for name, each in state.items()}

    def check_and_put(returned: Any) -> None:
        _refuse_changes(state, before)
        if put is not None:
            put(returned)

    return Call(run, check_and_put)


def deliver(
    found: Mapping[str, Any],
    outputs: Arrays,
    sample: Sample,
    said: str,
    *,
    counted: Mapping[str, str] = {},
    of_any_type: bool = False,
) -> None:
    """Copy a function's results into a session's outputs.

    Args:
        said: the start of an error's description of the right result.
        counted: result with a variable number of rows → the output that holds how many.
        of_any_type: convert results of another type.

    Raises:
        ValueError: a result has an unexpected shape, type or library.
    """
    home = HOMES[sample.home]
    wanted = [name for name in outputs if name not in counted.values()]
    if {*found} != {*wanted}:
        raise ValueError(f"it returned {list_first([*found], 4)}; {said} {list_first(wanted, 4)}")
    for name in wanted:
        output, right = outputs[name], sample.signature.outputs[name]
        result = _as_array(name, found[name], home, right)
        spec = describe(name, result, is_copied=True)
        if name in counted and spec.shape[:1] <= right.shape[:1]:
            outputs[counted[name]].fill(spec.shape[0])
            output, right = output[: spec.shape[0]], replace(right, shape=(*spec.shape[:1], *right.shape[1:]))
        if spec != right and not (of_any_type and spec.shape == right.shape):
            raise ValueError(f"it returned {name} as {_say(spec)}; {said} {_say(right)}")
        home.copy(result, output, right.type)


def _as_array(name: str, result: Any, home: Home, right: Array) -> Any:
    """Return a result, also a single number, as an array of the inputs' library."""
    own = home_of(result)
    if own is None and isinstance(result, int | float | complex | np.generic):
        kind = None if isinstance(result, np.generic) else right.type
        return home.bring(np.asarray(result, kind))
    if own is not home:
        kind_name = f"an array of {own.name}" if own else type(result).__name__
        raise ValueError(f"it returned {name} as {kind_name}; the inputs are {home.name}")
    return result


def _say(spec: Array) -> str:
    return f"{spec.dtype} of shape {spec.shape}" if spec.shape else f"a single {spec.dtype}"


def _refuse_changes(state: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raise `ValueError` if a function has changed a parameter or a buffer of its module; put them back."""
    changed = []
    for name, each in state.items():
        same = (each.detach() == before[name]) | (each != each) & (before[name] != before[name])
        if not bool(same.all()):
            changed.append(name)
            each.detach().copy_(before[name])  # other variants may work with the same module
    if changed:
        raise ValueError(f"it changed {changed[0]} of its module, which is an input; call eval() on the module first")


def find_import(value: Any) -> tuple[str, str] | None:
    """Return (module, name) from which a value can be imported, or None where it was typed into a main module."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or getattr(value, "name", None)
    short = name.rpartition(".")[2] if isinstance(name, str) else ""
    if not short.isidentifier():
        return None
    places: list[Any] = [getattr(value, "__module__", None), type(value).__module__.partition(".")[0]]
    if not isinstance(value, FunctionType | type):  # an object does not say where it was made
        public = (module for module in list(sys.modules) if not module.startswith("_"))
        places += sorted(public, key=lambda module: (module.count("."), module))
    for place in map(str, filter(None, places)):
        is_private = place == "__main__" or place.startswith(PREFIX)
        if not is_private and place in sys.modules and vars(sys.modules[place]).get(short) is value:
            return place, short
    return None


def unwrap(value: Any) -> FunctionType | None:
    """Return the Python function inside a decorated one: a Numba dispatcher, a Triton kernel, a wrapper."""
    if find_module(value) is not None and not isinstance(value, MethodType):
        return None
    return fingerprint.unwrap(value, ("py_func", "fn", "__wrapped__", "__func__"))


def find_module(value: Any) -> Any:
    """Return the PyTorch module that a callable is, or is a method of; None for any other one."""
    torch = sys.modules.get("torch")
    held = value.__self__ if isinstance(value, MethodType) else value
    return held if torch is not None and isinstance(held, torch.nn.Module) else None


def origin_of(function: Any) -> str:
    """Return "numpy.add" of a function, "module.name" of any other callable."""
    if isinstance(function, Kernel):
        return origin_of(function.function)
    if isinstance(function, MethodType) or find_module(function) is None:
        name = getattr(function, "__name__", "") or getattr(function, "name", "") or type(function).__name__
        module = getattr(function, "__module__", None) or type(getattr(function, "__self__", function)).__module__
    else:
        kind = type(getattr(function, "_orig_mod", function))
        name, module = kind.__name__, kind.__module__
    is_own = module == "__main__" or module.startswith(PREFIX)
    return str(name) if is_own else f"{module.partition('.')[0].lstrip('_')}.{name}"


def with_names(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Return the implementations, each with a name of its own: one that is taken gets its module's before it.

    Two that are given one name raise `UsageError`.
    """
    named: dict[str, Kernel] = {}
    given = [one.function for one in kernels if one.function is not None]
    for one in kernels:
        origin = re.sub(r"\W+", "_", one.symbol).strip("_") or origin_of(one.function)
        origin = re.sub(r"[^A-Za-z0-9_.<>]+", "_", origin).strip("_")
        short = origin.rpartition(".")[2].replace("<lambda>", "function") or "function"
        inner = "__wrapped__" if hasattr(one.function, "lower") else "py_func"  # of `jax.jit`, of Numba
        is_beside = any(getattr(one.function, inner, None) is each for each in given)
        if is_beside or hasattr(one.function, "_torchdynamo_orig_callable") or hasattr(one.function, "_orig_mod"):
            short, origin = short + COMPILED, origin + COMPILED
        numbered = [short, origin, *(f"{short}_{number}" for number in islice(count(2), len(kernels)))]
        free = (each for each in ([one.name] if one.name else numbered) if each not in named and "<" not in each)
        name = next(free, "")
        if not name:
            raise UsageError(f"two implementations are named {one.name!r}; give one another name")
        named[name] = replace(one, name=name)
    return tuple(named.values())


def arrange(
    function: Any, names: Collection[str], tunables: Collection[str] = ()
) -> tuple[list[str], list[str]] | None:
    """Return which of these arguments a function takes by position, and which by keyword, by its parameters' names.

    None where these do not have such names: it then takes all arguments by position.
    """
    parameters = _parameters(function) or []
    own = [one for one in parameters if one.name not in tunables]
    needed = [one.name for one in own if one.default is one.empty and one.kind not in FILLERS]
    if any(one.kind in (*FILLERS, one.POSITIONAL_ONLY) for one in own) or not needed or not {*needed} <= {*names}:
        return None
    # By position as far as that goes: `cupy.fuse` takes no keywords.
    first = [*takewhile(lambda one: one in own and one.name in names and one.kind != one.KEYWORD_ONLY, parameters)]
    return [one.name for one in first], [one.name for one in own if one not in first and one.name in names]


def call_with(
    function: Any, known: Mapping[str, Any], in_order: Sequence[str], tunables: Mapping[str, Any], by_name: bool = True
) -> Any:
    """Call a function with arguments by its parameters' names, where it has such, else in an order."""
    placed, named = (arrange(function, known, tunables) if by_name else None) or (in_order, [])
    return function(*(known[name] for name in placed), **{name: known[name] for name in named}, **tunables)


def list_strange(function: Any, names: Collection[str], in_order: Sequence[str]) -> list[str]:
    """Return the parameters that are none of these names, of a function that cannot take them in an order either."""
    try:
        inspect.Signature(_parameters(function)).bind(*in_order)
    except TypeError:
        return [name for name in list_parameters(function) if name not in names]
    return []


def list_parameters(function: Any) -> list[str]:
    """Return the names of the parameters that have no default; none where they cannot be told, or are any number."""
    parameters = _parameters(function) or []
    has_any = any(one.kind in FILLERS for one in parameters)
    return [one.name for one in parameters if one.default is one.empty and not has_any]


def _parameters(function: Any) -> list[inspect.Parameter] | None:
    """Return the parameters of a callable, of a PyTorch module those of its forward(); None for some builtins."""
    module = find_module(function)
    called = function if module is not function else getattr(module, "_orig_mod", module).forward
    try:
        return [*inspect.signature(called).parameters.values()]
    except (TypeError, ValueError):
        return None


def list_axes(given: Any) -> tuple[Axis, ...]:
    """Return the problem axes: the parameters of a function, or one that says that nothing can be chosen."""
    parameters = inspect.signature(given).parameters.values() if callable(given) else ()
    return tuple(_axis(one) for one in parameters if one.name != GENERATOR) or (GIVEN,)


def _axis(parameter: inspect.Parameter) -> Axis:
    """Return the problem axis that a parameter of an inputs function is: its default, or several, the first first."""
    name, given = parameter.name, parameter.default
    if isinstance(given, bool):
        return Axis(name, given, choices=(given, not given))
    if isinstance(given, str) or (isinstance(given, tuple | list) and given):
        choices = (given,) if isinstance(given, str) else tuple(given)
        return Axis(name, choices[0], choices=choices)
    if isinstance(given, int):
        return Axis(name, given, low=0 if given == 0 else 1)
    raise UsageError(
        f"inputs: parameter {name} needs a default, a whole number (n=2**20) or a tuple of choices; "
        f"it is a problem axis. Only {GENERATOR} has none"
    )


def seed_all(rng: np.random.Generator) -> None:
    """Seed the generators that a function without one of its own draws from."""
    seed = int(rng.integers(2**31))
    random.seed(seed)
    np.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)
    if (cupy := sys.modules.get("cupy")) is not None:
        cupy.random.seed(seed)
