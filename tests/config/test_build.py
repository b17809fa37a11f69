from __future__ import annotations

from typing import Any

import pytest

from cuprof.config.build import build_config, list_settings
from cuprof.core.errors import ConfigError, UnknownNameError

MINIMAL: dict[str, Any] = {"family": "reduction"}


def build(given: tuple[str, ...] = (), **composed: Any) -> Any:
    return build_config({**MINIMAL, **composed}, experiment="e", given=given)


def test_axes_become_tuples_and_arithmetic_stays_text() -> None:
    config = build(problem={"n": ["2**20", 7], "dtype": "float32"}, tune={"block": 64}, variants="all")
    assert config.problem == {"n": ("2**20", 7), "dtype": ("float32",)}
    assert config.tune == {"block": (64,)}
    assert config.variants == ("all",)


def test_presets_are_no_axis() -> None:
    config = build(problem={"preset": ["A", "B"], "n": 4})
    assert config.presets == ("A", "B")
    assert config.problem == {"n": (4,)}


def test_tunables_that_nobody_typed_are_optional() -> None:
    tune = {"block": [64], "items": [1]}
    assert build(("tune.block", "variants"), tune=tune).optional == {"items"}
    assert build().optional == frozenset()


def test_an_axis_typed_by_hand_replaces_the_experiments_presets() -> None:
    assert build(("problem.n",), problem={"preset": ["A"], "n": [4]}).presets == ()
    assert build(("problem.n", "problem.preset"), problem={"preset": ["A"], "n": [4]}).presets == ("A",)
    assert build(("variants",), problem={"preset": ["A"]}).presets == ("A",)


def test_auto_and_null_mean_no_choice() -> None:
    device = build(device={"cuda": "auto", "opencl": None, "cpu_threads": "auto"}).device
    assert (device.cuda, device.opencl, device.cpu_threads) == (("auto",), None, None)
    assert build(device={"cuda": 1}).device.cuda == ("1",)
    assert build(device={"opencl": [2]}).device.opencl == 2


def test_numbers_are_read_as_their_kind() -> None:
    measure = build(measure={"max_seconds": 2, "max_samples": 100.0, "modes": "hot"}).measure
    assert isinstance(measure.max_seconds, float)
    assert isinstance(measure.max_samples, int)
    assert measure.modes == ("hot",)
    assert build(retry=None).retry == ""


@pytest.mark.parametrize(
    ("composed", "message"),
    [
        ({"measure": {"targt": 1}}, "unknown setting 'measure.targt': did you mean measure.target"),
        ({"experiment": "x"}, "experiment is set on the command line only; remove it from the file"),
        ({"famly": "x"}, "unknown setting 'famly': did you mean family"),
        ({"measure": {"": 1}}, "unknown setting 'measure.': "),
        *(({key: 1}, f"unknown setting '{key}': ") for key in ("", 0, False, 0.0)),
        ({"measure": 3}, "measure is 3"),
        ({"measure": {"target": "abc"}}, "measure.target is 'abc'; it must be a number"),
        ({"measure": {"target": float("nan")}}, "measure.target is nan"),
        ({"measure": {"target": 0}}, "measure.target is 0.0; it must be from 1e-05 to 0.5"),
        ({"measure": {"min_samples": 2.5}}, "measure.min_samples is 2.5; it must be a whole number"),
        ({"measure": {"min_samples": True}}, "it must be a whole number"),
        ({"measure": {"min_samples": 50, "max_samples": 20}}, "more than measure.max_samples"),
        ({"measure": {"modes": []}}, "measure.modes is empty"),
        ({"measure": {"modes": ["cold", "cold"]}}, "name each once"),
        ({"measure": {"modes": ["warm"]}}, "unknown value of measure.modes 'warm'"),
        ({"measure": {"flush": "drty"}}, "did you mean dirty"),
        ({"measure": {"blocking": "yes"}}, "it must be true or false"),
        ({"device": {"cuda": -1}}, "device.cuda is -1"),
        ({"device": {"cuda": [0, 0]}}, "device.cuda is 0,0; name each device once"),
        ({"device": {"cuda": [0, "all"]}}, "device.cuda is 0,all; it is auto, all, each, or ordinals from 0 to 1023"),
        (
            {"device": {"cuda": ["each"]}, "search": {"name": "random"}},
            "a search measures a part; take device.cuda=all",
        ),
        ({"device": {"opencl": [0, 2]}}, "device.opencl is [0, 2]; it takes one value, and device.opencl=0,2 runs a"),
        ({"device": {"backends": ["cudda"]}}, "did you mean cuda"),
        ({"limits": {"trial_s": 0}}, "limits.trial_s is 0.0"),
        ({"ncu": {"cache_control": "cold"}}, "unknown value of ncu.cache_control 'cold'"),
        ({"retry": "faild"}, "did you mean failed"),
        ({"retry_above": 0}, "retry_above is 0.0; it must be above 0, up to 100"),
        ({"retry": "yes"}, "unknown value of retry 'yes': there are (empty), all, failed"),
        ({"check": {"seed": -1}}, "check.seed is -1; it must be from 0 to 9223372036854775807"),
        ({"measure": {"max_samples": 0}}, "measure.max_samples is 0; it must be from 1 to 1000000"),
        ({"report": {"sweep": 0}}, "report.sweep is 0; it must be from 1 to"),
        ({"report": {"sweep": "newest"}}, "report.sweep is 'newest'; it must be a whole number"),
        ({"output": "xml"}, "unknown value of output 'xml'"),
        ({"variants": []}, "variants is empty"),
        ({"family": ""}, "no family is chosen"),
        ({"family": {"a": "b"}}, "family is {'a': 'b'}; it must be a text"),
        ({"problem": 8}, "problem is 8"),
        ({"problem": {"n": []}}, "problem.n is []; give a number, a text, or a list of them"),
        ({"tune": {"block": [None]}}, "tune.block is [None]; give a number, a text, or a list of them"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(composed: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, UnknownNameError)) as caught:
        build_config({**MINIMAL, **composed}, experiment="e")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_setting_is_listed() -> None:
    settings = list_settings()
    assert {"family", "measure.target", "problem.preset", "ncu.batch", "dry_run"} <= set(settings)
    assert "composed" not in settings


def test_the_configuration_can_be_a_key_and_travel() -> None:
    import pickle

    config = build(problem={"n": [1]})
    assert hash(config) == hash(build(problem={"n": [1]}))
    assert pickle.loads(pickle.dumps(config)) == config
