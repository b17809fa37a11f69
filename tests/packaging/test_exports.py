"""What a package says is public is there, and importing it has no side effect that costs."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import cuprof

PACKAGES = [
    module.name
    for module in pkgutil.walk_packages(cuprof.__path__, "cuprof.")
    if module.ispkg and not module.name.startswith("cuprof.cli.template")
]


@pytest.mark.parametrize("name", ["cuprof", *PACKAGES])
def test_every_public_name_exists(name: str) -> None:
    package = importlib.import_module(name)
    for public in getattr(package, "__all__", ()):
        assert getattr(package, public) is not None


def test_importing_cuprof_is_cheap() -> None:
    code = "import sys, cuprof; print(sorted({'numpy', 'pandas', 'hydra', 'rich', 'sqlalchemy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_ncu_starts_before_anything_heavy_is_imported() -> None:
    heavy = "{'numpy', 'pandas', 'cupy', 'sqlalchemy', 'numba'}"
    modules = "sys, cuprof.cli.ncu, cuprof.config.build, cuprof.ncu.collector"
    code = f"import {modules}; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("first", "other"), [("comparison.sides", "comparison.compare"), ("statistics.samples", "statistics.contrasts")]
)
def test_a_module_that_another_imports_does_not_import_that_one(first: str, other: str) -> None:
    """Not by its package either: two threads that import the two at once would wait for each other."""
    code = f"import sys, cuprof.{first}; print('cuprof.{other}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_only_the_command_line_knows_hydra_and_rich() -> None:
    from pathlib import Path

    package = Path(cuprof.__file__).parent
    allowed = {
        "hydra": ("cli/", "config/"),
        "omegaconf": ("cli/", "config/"),
        "rich": ("cli/",),
    }
    for library, places in allowed.items():
        users = {
            file.relative_to(package).as_posix()
            for file in package.rglob("*.py")
            if any(
                line.strip().startswith((f"import {library}", f"from {library}"))
                for line in file.read_text(encoding="utf-8").splitlines()
            )
        }
        assert [user for user in users if not user.startswith(places)] == [], library
