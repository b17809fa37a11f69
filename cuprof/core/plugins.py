"""Extension points: what cuprof brings itself, and what installed packages add through entry points.

A package adds, say, a search strategy in its pyproject.toml:

    [project.entry-points."cuprof.strategies"]
    mine = "my_package.search:Mine"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any

from cuprof.core.errors import UnknownNameError, UsageError


def list_plugins(group: str, built_in: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names in a group such as "cuprof.strategies", the built-in ones first; nothing is imported."""
    return tuple(dict.fromkeys([*built_in, *_installed(group)]))


def load_plugin(group: str, name: str, built_in: Mapping[str, str], what: str) -> Any:
    """Return the object of this name, imported now; a built-in one wins over an installed one.

    Args:
        built_in: name → "module:object".
        what: what the group holds, for the message ("search strategy").

    Raises:
        UnknownNameError: nothing has this name.
        UsageError: the package that offers it cannot be imported.
    """
    place = built_in.get(name) or _installed(group).get(name)
    if place is None:
        raise UnknownNameError(what, name, list_plugins(group, built_in))
    try:
        return resolve_name(place)
    except Exception as error:
        if name in built_in:
            raise
        raise UsageError(f"the {what} {name!r} cannot be loaded from {place}: {error}") from error


@cache
def _installed(group: str) -> Mapping[str, str]:
    return {point.name: point.value for point in sorted(entry_points(group=group))}
