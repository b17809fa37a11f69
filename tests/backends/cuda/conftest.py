"""NVRTC for the tests that compile, as the tests of builds have it."""

from __future__ import annotations

from tests.builds.conftest import nvrtc

__all__ = ["nvrtc"]
