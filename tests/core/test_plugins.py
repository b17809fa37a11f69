"""Extension points: names of built-in and installed things, and what is imported for a name."""

from __future__ import annotations

from collections import OrderedDict
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from cuprof.core import plugins
from cuprof.core.errors import UnknownNameError, UsageError
from cuprof.core.plugins import list_plugins, load_plugin

GROUP = "cuprof.things"
BUILT_IN = {"ordered": "collections:OrderedDict", "lost": "cuprof.no_such_module:Thing"}
INSTALLED = {"ordered": "builtins:dict", "counter": "collections:Counter", "broken": "no_such_package:Thing"}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(EntryPoint(name, value, GROUP) for name, value in INSTALLED.items())
    monkeypatch.setattr(plugins, "entry_points", lambda group: points.select(group=group))
    plugins._installed.cache_clear()


def test_built_in_names_come_first_and_each_once() -> None:
    assert list_plugins(GROUP, BUILT_IN) == ("ordered", "lost", "broken", "counter")
    assert list_plugins("cuprof.others", ["one"]) == ("one",)


def test_a_name_is_imported_when_it_is_asked_for_and_a_built_in_one_wins() -> None:
    assert load_plugin(GROUP, "ordered", BUILT_IN, "thing") is OrderedDict
    assert load_plugin(GROUP, "counter", BUILT_IN, "thing").__name__ == "Counter"


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown thing 'countre': did you mean counter\?$"):
        load_plugin(GROUP, "countre", BUILT_IN, "thing")


def test_a_package_that_cannot_be_imported_is_bad_input_and_a_fault_of_our_own_is_not() -> None:
    with pytest.raises(UsageError, match="the thing 'broken' cannot be loaded from no_such_package:Thing"):
        load_plugin(GROUP, "broken", BUILT_IN, "thing")
    with pytest.raises(ImportError):
        load_plugin(GROUP, "lost", BUILT_IN, "thing")


def test_what_really_is_installed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    plugins._installed.cache_clear()
    assert "pytest" in list_plugins("console_scripts")
    plugins._installed.cache_clear()
