"""NVRTC for the tests that compile, or the reason why they cannot."""

from __future__ import annotations

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
