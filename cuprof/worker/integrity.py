"""Check that the code that checks, times and counts is unchanged since before foreign code ran in this process."""

from __future__ import annotations

import ctypes
import dis
import gc
import inspect
import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from cuprof.families.modules import nested_codes

WATCHED = frozenset(
    {"builtins", "concurrent", "contextlib", "cuprof", "dataclasses", "enum", "gc", "hashlib", "json", "math",
     "msgspec", "numpy", "os", "pynvml", "queue", "random", "scipy", "secrets", "statistics", "struct", "threading",
     "time"}
)  # fmt: skip
"""Packages whose functions run between a variant's execution and the stored result."""
OWN = "cuprof"
WHOLE = (OWN, "concurrent", "queue", "random", "threading")
"""Packages whose classes, methods and constants are watched too: threads empty the caches and compare, and random
numbers make the inputs."""
BUILT_IN = (np.ndarray, np.ufunc, np.dtype, dict, list, tuple, str, bytes)
"""Classes of machine code. Their methods can still be exchanged in their dictionaries."""
PLAIN = (int, float, str, bytes, bool, frozenset, tuple)
"""Types of constants. Such a value changes only when its name is bound anew."""
FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, partial)
_all, _map, _is, _vars, _type, _getattr = all, map, operator.is_, vars, type, getattr
"""Compare tens of thousands of objects in a millisecond or two, with the built-ins as they were at import: variants may
rebind these names elsewhere."""


class Integrity:
    """Remember the functions, classes, methods and constants of the watched packages, as far as they are loaded."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, list[str], list[Any]]] = []
        self._code: list[tuple[FunctionType, Any, Any, Any]] = []
        self._classes: list[tuple[object, type]] = []
        self._bases: list[tuple[type, tuple[type, ...]]] = []
        self._referents: list[Any] = []
        self._names: list[tuple[dict[str, Any], str, Any]] = []
        self._trusted: set[int] = set()
        self._modules: dict[str, Any] = {}
        self._objects: list[tuple[object, type]] = []
        self._methods: dict[type, frozenset[str]] = {}
        self._frozen: list[tuple[object, str, Any]] = []
        self._held: list[tuple[object, str, Any]] = []
        self._own: list[object] = []
        self._walked = 0, 0, 0
        for each in BUILT_IN:
            self._remember_class(each)
        self.learn()

    def learn(self) -> None:
        """Record the watched packages' functions loaded since the last call."""
        for name, module in list(sys.modules.items()):
            if module is None or name in self._modules or name.partition(".")[0] not in WATCHED:
                continue
            own = name.partition(".")[0] in WHOLE
            self._modules[name] = module
            known: dict[str, Any] = {}
            for attribute, value in list(vars(module).items()):
                if callable(value) or (own and isinstance(value, PLAIN) and not attribute.startswith("__")):
                    known[attribute] = value
                if own and inspect.isclass(value) and value.__module__ == name:
                    self._remember_class(value)
                elif isinstance(value, FunctionType) and value.__module__ == name:
                    self._remember_code(value)
            self._known.append((module, [*known], [*known.values()]))
            self._classes.append((module, type(module)))

    def watch(self, *roots: object) -> None:
        """Record our own objects reachable from these, replacing those recorded so far.

        Frozen objects must keep their values; others must keep the functions and our own objects that they hold. None
        may get another class, or a method that its class does not have.
        """
        remembered: tuple[Sequence[object], ...] = (self._known, self._code, self._names)
        new = [part[start:] for part, start in zip(remembered, self._walked, strict=True)]
        self._own += _walk(new, self._own)  # once: all of it is a tenth of a second
        self._walked = len(self._known), len(self._code), len(self._names)
        reached = [*_walk(roots, [*vars(self).values()])]
        objects = {id(each): each for each in (*self._own, *reached)}
        self._objects = [(each, type(each)) for each in objects.values()]
        self._methods = {kind: frozenset(_methods_of(kind)) for kind in {kind for _, kind in self._objects}}
        self._held = [
            (each, name, value)
            for each, _ in self._objects
            for name, value in _attributes(each).items()
            if isinstance(value, FUNCTIONS) or _is_own(value)
        ]
        self._frozen = [
            (each, part.name, getattr(each, part.name))
            for each, _ in self._objects
            if is_dataclass(each) and each.__dataclass_params__.frozen  # type: ignore[union-attr]
            for part in fields(each)
        ]
        self._frozen += [(each, "_value_", each._value_) for each, _ in self._objects if isinstance(each, Enum)]

    def trust(self, function: object, *, constants: bool = False) -> None:
        """Record a family's own judging function: its code, the values of its names, and their code.

        For one of our own methods, which calls functions of a user's script, record the object's attributes of those
        names.

        Args:
            constants: record numbers and texts too, except those that the function itself assigns, such as a count.
        """
        left: list[Any] = [function]
        seen = set[tuple[int, int]]()
        kinds = (*PLAIN, ModuleType) if constants else (ModuleType,)
        while left:
            each = left.pop()
            if isinstance(each, partial):
                left.append(each.func)
                continue
            holder, each = (each.__self__, each.__func__) if isinstance(each, MethodType) else (None, each)
            if not isinstance(each, FunctionType) or (id(each), id(holder)) in seen:
                continue
            seen.add((id(each), id(holder)))
            places: list[Any] = [holder] if _has_dict(holder) else []
            counted: set[str] = set()
            if str(each.__module__).partition(".")[0] != OWN:  # all of ours are known
                if id(each) not in self._trusted:
                    self._trusted.add(id(each))  # it is held by `_code`, so that no other one gets its number
                    self._remember_code(each)
                elif holder is None:
                    continue
                places.append(each.__globals__)
                left += [cell.cell_contents for cell in each.__closure__ or () if cell != CellType()]
                left.append(getattr(each, "__wrapped__", None))
                counted = _bound_in(each.__code__) if constants else counted
            left += self._remember_names(each.__code__, places, kinds, counted)

    @contextmanager
    def for_now(self) -> Iterator[None]:
        """At the end, restore replaced objects and forget functions trusted since: later code may call more."""
        self.learn()
        trusted, codes, names = set(self._trusted), len(self._code), len(self._names)
        yield
        self.mend()
        self._trusted = trusted
        del self._code[codes:], self._names[names:]

    def _remember_names(
        self, code: CodeType, places: list[Any], kinds: tuple[type, ...], counted: set[str]
    ) -> Iterator[Any]:
        """Record the values of the names in a function's code, and yield each.

        Args:
            places: dictionaries and our own objects in which to look the names up.
            kinds: types to record from a dictionary besides callables, except under names in `counted`.
        """
        names = (name for each in nested_codes(code) for name in each.co_names)
        for name in names:  # of a.b.c each part is looked up in the one before
            for place in [*places]:
                known = place if isinstance(place, dict) else vars(place)
                if name not in known:
                    method = None if known is place else getattr(type(place), name, None)
                    if isinstance(method, FunctionType):
                        yield MethodType(method, place)
                    continue
                value = known[name]
                if isinstance(value, ModuleType) or (_is_own(value) and _has_dict(value)):
                    places.append(vars(value) if isinstance(value, ModuleType) else value)
                told = kinds if known is place and name not in counted else ModuleType
                if callable(value) or isinstance(value, told):
                    self._names.append((known, name, value))
                    yield value

    def hide(self) -> None:
        """Hide all current objects from the garbage collector, through which code could find objects of others."""
        gc.freeze()

    def mend(self) -> tuple[str, ...]:
        """Restore replaced objects and return their names."""
        replaced = []
        for each, kind in self._classes:  # before anything is asked of them, as a class may answer as it likes
            if _type(each) is not kind:
                (_type if issubclass(kind, _type) else object).__setattr__(each, "__class__", kind)
                replaced.append(f"the class of {each.__name__}")  # type: ignore[attr-defined]
        for owner, bases in self._bases:
            if owner.__bases__ is not bases:
                replaced.append(f"the bases of {owner.__name__}")
                owner.__bases__ = bases
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                replaced.append(f"module {name}")
                sys.modules[name] = module
        for owner, names, values in self._known:
            get = _vars(owner).get
            if _all(_map(_is, _map(get, names), values)):
                continue
            for attribute, value in zip(names, values, strict=True):
                if get(attribute) is not value:
                    replaced.append(f"{owner.__name__}.{attribute}")
                    _put(owner, attribute, value)
        for place, name, value in self._names:
            if place.get(name) is not value:
                replaced.append(f"{place.get('__name__', 'the family')}.{name}")
                place[name] = value
        replaced += self._mend_code()
        for each, attribute, value in (*self._frozen, *self._held):
            if _getattr(each, attribute, None) is not value:
                replaced.append(f"{type(each).__name__}.{attribute}")
                object.__setattr__(each, attribute, value)
        for each, kind in self._objects:
            if _type(each) is not kind:
                replaced.append(f"the class of a {kind.__name__}")
                object.__setattr__(each, "__class__", kind)
            for attribute in self._methods[kind].intersection(_getattr(each, "__dict__", ())):
                replaced.append(f"{kind.__name__}.{attribute}")
                del vars(each)[attribute]
        return tuple(dict.fromkeys(replaced))

    def _mend_code(self) -> list[str]:
        """Put back the code and the defaults of functions.

        Reading them from each function raises an audit event each time. Asking the garbage collector for the referents
        of all functions at once is a hundred times faster.
        """
        functions = [each[0] for each in self._code]
        now = gc.get_referents(*functions)
        if len(now) == len(self._referents) and _all(_map(_is, now, self._referents)):
            return []
        replaced = []
        for function, *known in self._code:
            if not _all(_map(_is, (function.__code__, function.__defaults__, function.__kwdefaults__), known)):
                replaced.append(f"{function.__module__}.{function.__qualname__}")
                function.__code__, function.__defaults__, function.__kwdefaults__ = known
        self._referents = gc.get_referents(*functions)
        return replaced

    def _remember_class(self, owner: type) -> None:
        known: dict[str, Any] = {}
        for attribute, value in list(vars(owner).items()):
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if (
                callable(value)
                or isinstance(value, property | classmethod | staticmethod)
                or (isinstance(value, PLAIN) and not attribute.startswith("_"))
            ):
                known[attribute] = value
            if isinstance(function, FunctionType):
                self._remember_code(function)
        self._known.append((owner, [*known], [*known.values()]))
        self._classes.append((owner, type(owner)))
        self._bases.append((owner, owner.__bases__))

    def _remember_code(self, function: FunctionType) -> None:
        self._code.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        self._referents += gc.get_referents(function)


def _bound_in(code: CodeType) -> set[str]:
    """Return the global names that a function assigns."""
    every = (one for each in nested_codes(code) for one in dis.Bytecode(each))
    return {one.argval for one in every if one.opname == "STORE_GLOBAL"}


def _put(owner: Any, attribute: str, value: object) -> None:
    """Give a module or a class an attribute, where need be by the dictionary of a class that refuses it."""
    try:
        setattr(owner, attribute, value)
    except TypeError:
        gc.get_referents(vars(owner))[0][attribute] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def _walk(roots: Sequence[object], passed_over: Sequence[object] = ()) -> Iterator[object]:
    """Yield each object of our own classes that is reached through attributes and containers, once."""
    seen: set[int] = {id(each) for each in passed_over}
    left: list[object] = list(roots)
    while left:
        each = left.pop()
        if (key := id(each)) in seen:  # asking is an event, which a hook of `opened` hears
            continue
        seen.add(key)
        if isinstance(each, list | tuple):
            left += each
        elif isinstance(each, Mapping):
            left += each.values()
        elif _is_own(each):
            yield each
            left += _attributes(each).values()


def _is_own(value: object) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == OWN and (
        hasattr(value, "__dict__") or bool(kind.__dict__.get("__slots__"))
    )


def _has_dict(value: object) -> bool:
    return isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, ModuleType)


def _methods_of(kind: type) -> list[str]:
    return [name for name, value in vars(kind).items() if isinstance(value, FunctionType)]


def _attributes(each: object) -> dict[str, Any]:
    """Return the attributes of an object's own, in a dict or in slots."""
    slots = [name for name in getattr(type(each), "__slots__", ()) if hasattr(each, name)]
    own = getattr(each, "__dict__", None)
    return {**(own if isinstance(own, dict) else {}), **{name: getattr(each, name) for name in slots}}
