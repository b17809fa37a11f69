"""Each trick that needs no GPU, through a real worker: whether it is caught, as the records say; none honest accused.

A trick that the records say is not caught fails as expected; once it is caught, its test fails until the record
says so. Those that can harm others take a worker process each, so all but a few of them are slow tests.
"""

from __future__ import annotations

import pytest

from benchmarks.trick_records import HONEST, STALE, Trick, load_records
from cuprof.backends.opencl.presence import find_devices
from cuprof.core.errors import MissingDependencyError

QUICK = ("thread_handed", "denormals_left")
"""Of the tricks that take a sweep of their own, those in the ordinary tests."""


def list_cases() -> list[object]:
    """Return (back end, trick) of those on the CPU and in OpenCL, marked with what the records say of each."""
    cases = []
    for backend, tricks in load_records("cpu", "opencl").items():
        for trick in tricks:
            reason = f"not caught yet; what ought to catch it: {trick.caught_by}"
            marks = [] if trick.caught else [pytest.mark.xfail(reason=reason, strict=trick.caught is False)]
            if not trick.is_harmless and trick.variant not in QUICK:
                marks.append(pytest.mark.slow)
            cases.append(pytest.param(backend, trick, id=trick.variant, marks=marks))
    return cases


def require(backend: str) -> None:
    """Skip where the back end has no device."""
    if backend != "opencl":
        return
    try:
        devices = find_devices()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    if not devices:
        pytest.skip("no OpenCL device (apt install pocl-opencl-icd)")


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
def test_no_honest_variant_is_accused(honest, backend):
    require(backend)
    shown = honest(backend)
    assert {name: shown[name].message for name in HONEST[backend] if shown[name].state != "ok"} == {}
    assert all(shown[name].median_ns > 0 for name in HONEST[backend])


@pytest.mark.parametrize(("backend", "trick"), list_cases())
def test_a_trick_gets_no_rank_and_no_false_time(judge, backend: str, trick: Trick):
    require(backend)
    found = judge(backend, trick)
    if STALE in found.shown.message:
        pytest.fail(f"{trick.variant} finds nothing to change: {found.shown.message}")
    assert found.is_caught, f"{found.ending}, beside it {found.unsound or 'all sound'}: {found.shown.message}"
