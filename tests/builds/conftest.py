"""NVRTC for the tests that compile, or the reason why they cannot."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cuprof.builds.nvrtc import load_nvrtc
from cuprof.core.errors import MissingDependencyError


@pytest.fixture
def nvrtc() -> object:
    """Return the compiler's module."""
    try:
        return load_nvrtc()
    except MissingDependencyError as error:
        pytest.skip(str(error))


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile in this process, where a compiler's stand-in or other headers can be put."""
    monkeypatch.setattr("cuprof.builds.pool.COMPILERS", SimpleNamespace(run=lambda build, limit_s: build.run()))
