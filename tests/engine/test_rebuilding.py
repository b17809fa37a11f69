"""Stored trials of a real family are built again without a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cuprof.core.errors import UsageError
from cuprof.core.point import Point
from cuprof.core.project import find_project
from cuprof.engine.building import rebuild, rebuild_ptx
from cuprof.families.fingerprint import source_text
from cuprof.families.origin import find_folder
from cuprof.results.named_trials import NamedTrial


@pytest.fixture
def trial() -> NamedTrial:
    pytest.importorskip("cuda.bindings.nvrtc")
    family = find_folder("reduction", find_project().folders("kernels")).load()
    text = source_text(family, family.variant("sequential"))
    problem, tunables = Point(n=2**20, dtype="float32"), Point(block=128)
    facts = {"name": "Test GPU", "compute_capability": "9.0"}
    return NamedTrial(
        *(1, "reduction/sequential", "reduction", "sequential", "cuda", "kernel", problem, tunables, text),
        *("Test GPU", facts, "", 1, 1.0),
    )


def test_equal_source_is_equal_code_and_another_is_not(trial: NamedTrial) -> None:
    built = rebuild(trial, find_project())
    assert (
        built.keys() == rebuild(replace(trial, source_text=f"// a remark\n{trial.source_text}"), find_project()).keys()
    )
    assert (
        built.keys()
        != rebuild(replace(trial, source_text=trial.source_text.replace("+=", "-=")), find_project()).keys()
    )
    assert all(image.startswith(b"\x7fELF") for image in built.values())


def test_ptx_is_built_again(trial: NamedTrial) -> None:
    assert ".visible .entry sequential" in rebuild_ptx(trial, find_project())


@pytest.mark.parametrize("changes", [{"kind": "library"}, {"backend": "opencl"}, {"device_facts": {}}])
def test_what_is_not_built_here_is_said_so(trial: NamedTrial, changes: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        rebuild(replace(trial, **changes), find_project())  # type: ignore[arg-type]
