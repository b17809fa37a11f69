"""Identities and method hashes, pinned: stored timings are taken over as long as these stay what they are.

A change here makes stored trials new, or timings of before incomparable: raise IDENTITY_VERSION, METHOD_VERSION or a
back end's `timing_version` on purpose, and say so in the changelog.

The methods are of version 4, since which an execution of more than half a second is its own warm-up, and of timing
versions cuda 5, opencl 3 and cpu 5: inputs, outputs and scratch are written anew before each execution that is timed,
and results of those executions are compared. Since cuda 5 a cold frame of one launch may have another behind it. Since
cpu 5 the copy of a result from scratch to its output is outside the time, as on CUDA.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from cuprof.config.model import MeasureConfig
from cuprof.core.records import DeviceFacts, Measure
from cuprof.families.origin import load_family
from cuprof.plan import Selection, plan, plan_hash
from cuprof.worker.method import methods

ROOT = Path(__file__).parents[2]
PINNED = json.loads(Path(__file__).with_name("pinned.json").read_text(encoding="utf-8"))
DEVICES = {
    name: DeviceFacts(name, 0, f"Example {name}", memory_bytes=2**36, identity={"name": f"Example {name}"})
    for name in ("cuda", "opencl", "cpu")
}
SETTINGS = {
    "default": MeasureConfig(modes=("cold", "hot", "total")),
    "energy": MeasureConfig(modes=("cold", "hot", "total"), energy=True, graph=True, timer="cupti", flush="dirty"),
}


@pytest.fixture(autouse=True)
def _same_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every library has one version, so that the values do not follow what is installed here."""
    monkeypatch.setattr("cuprof.plan.identity.get_version", lambda module: f"{module} 1.0")


def digest_family(folder: Path, *, with_tunables: bool = False) -> str:
    """Return the hash of the identities of a family's trials on the example devices, at the defaults or everywhere."""
    family = load_family(folder)
    names = {tunable.name for variant in family.variants.values() for tunable in variant.tunables if with_tunables}
    trials = plan(family, Selection(("all",), tune=dict.fromkeys(names, ("all",))), DEVICES).trials
    text = "\n".join(
        sorted(f"{trial.variant} {dict(trial.tunables) if names else trial.label} {trial.identity}" for trial in trials)
    )
    return f"{len(trials)} {hashlib.sha256(text.encode()).hexdigest()}"


@pytest.mark.parametrize("folder", sorted(PINNED["families"]))
def test_identities_are_those_of_before(folder):
    assert digest_family(ROOT / folder) == PINNED["families"][folder]


@pytest.mark.parametrize("folder", sorted(PINNED["with tunables"]))
def test_identities_at_every_value_of_the_tunables_are_those_of_before(folder):
    assert digest_family(ROOT / folder, with_tunables=True) == PINNED["with tunables"][folder]


@pytest.mark.parametrize("folder", sorted(PINNED["plans"]))
def test_a_plan_is_taken_up_again_by_the_hash_of_before(folder):
    family = load_family(ROOT / folder)
    found = plan(family, Selection(("all",)), DEVICES)
    assert plan_hash(found, {Measure.COLD: "0123456789abcdef"}) == PINNED["plans"][folder]


@pytest.mark.parametrize("name", sorted(PINNED["methods"]))
def test_methods_are_those_of_before(name):
    found = {
        f"{backend}.{measure.value}": value
        for backend in DEVICES
        for measure, value in methods(SETTINGS[name], backend).items()
    }
    assert found == PINNED["methods"][name]
