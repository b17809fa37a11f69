"""What the package says is public is there, and importing it costs no database library."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cuprof


def test_all_is_true() -> None:
    assert callable(cuprof.load)
    with pytest.raises(AttributeError, match="nothing"):
        cuprof.nothing  # noqa: B018


def test_importing_is_cheap() -> None:
    script = (
        "import sys, cuprof, cuprof.store; "
        "print(sorted(set(sys.modules) & {'sqlalchemy', 'pandas', 'alembic', 'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
