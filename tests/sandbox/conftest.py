"""The sandboxes that tests run code in, and the reason where there are none."""

from __future__ import annotations

import pytest

from cuprof.sandbox import probe
from cuprof.sandbox.settings import Sandbox


@pytest.fixture(scope="module")
def refusal() -> str:
    return probe.find_refusal()


@pytest.fixture(params=[True, False], ids=["namespaces", "limits"])
def sandbox(request: pytest.FixtureRequest, refusal: str) -> Sandbox:
    """Return a sandbox with namespaces, where the system allows them, and one with the limits alone."""
    if request.param and refusal:
        pytest.skip(f"no namespaces here: {refusal}")
    return Sandbox(namespaces=request.param, memory_bytes=1 << 28)


@pytest.fixture
def full(refusal: str) -> Sandbox:
    """Return a sandbox with namespaces."""
    if refusal:
        pytest.skip(f"no namespaces here: {refusal}")
    return Sandbox()
