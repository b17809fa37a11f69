"""What is known of back ends by name, before anything of theirs is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cuprof.backends.registry import get_spec, is_host, list_backends
from cuprof.backends.spec import LaunchLimits
from cuprof.config.model import DeviceConfig, MeasureConfig
from cuprof.core.errors import UnknownNameError
from cuprof.core.records import DeviceFacts, Measure


@pytest.mark.parametrize("backend", list_backends())
def test_a_spec_speaks_of_what_there_is(backend: str) -> None:
    spec = get_spec(backend)
    assert spec.name == backend
    assert spec.title
    assert spec.measures
    assert set(spec.measures) <= set(Measure)
    assert spec.unheeded <= set(vars(MeasureConfig()))
    assert hasattr(DeviceConfig(), spec.setting)
    assert spec.timing_version >= 1


def test_a_name_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown back end 'cudda': did you mean cuda"):
        get_spec("cudda")


def test_the_settings_give_each_back_end_its_number() -> None:
    numbers = DeviceConfig(cuda=("1",), cpu_threads=4).numbers()
    assert tuple(numbers) == list_backends()
    assert (numbers["cuda"], numbers["opencl"], numbers["cpu"]) == (1, None, 4)


@pytest.mark.parametrize(
    ("backend", "details", "expected"),
    [
        ("cpu", {}, True),
        ("opencl", {"type": "CPU"}, True),
        ("opencl", {"type": "GPU"}, False),
        ("cuda", {}, False),
        ("of another version", {}, False),
    ],
)
def test_what_is_the_hosts_own_processor(backend: str, details: dict[str, str], expected: bool) -> None:
    assert is_host(DeviceFacts(backend, 0, "a device", details=details)) is expected


def test_where_devices_differ_nothing_is_refused_beforehand() -> None:
    assert min(*LaunchLimits().grid, *LaunchLimits().block, LaunchLimits().block_threads) == float("inf")


def test_specs_load_no_library_of_a_device() -> None:
    code = (
        "import sys; from cuprof.backends.registry import *; [get_spec(name) for name in list_backends()];"
        "print(sorted({'numpy', 'cupy', 'cuda', 'pyopencl', 'pynvml', 'numba'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
