"""The files of conf/ compose, and their values are the dataclasses' defaults."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from itertools import zip_longest

import pytest

from cuprof.config.composer import compose
from cuprof.config.model import (
    CheckConfig,
    DeviceConfig,
    LaunchConfig,
    LimitsConfig,
    MeasureConfig,
    NcuConfig,
    ReportConfig,
    SearchConfig,
    StoreConfig,
)
from cuprof.config.overrides import GROUPS
from cuprof.core.project import bundled

CHOICES = {
    group: [
        f"{group}={file.stem}"
        for file in sorted((bundled("conf") / group).glob("*.yaml"))
        if file.name[0] != "_" and file.stem != "all_studies"  # stands for several: tests/config/test_studies.py
    ]
    for group in GROUPS
}
EXPERIMENTS = CHOICES.pop("experiment")  # which set what is of other groups, and hide it


def test_the_groups_are_the_folders_of_conf() -> None:
    assert sorted(GROUPS) == sorted(path.name for path in bundled("conf").iterdir() if path.is_dir())


def test_defaults_are_the_same_in_conf_and_in_the_dataclasses() -> None:
    config = compose(["experiment=reduction"])
    assert config.measure == MeasureConfig()
    assert config.check == CheckConfig()
    assert config.device == DeviceConfig()
    assert config.limits == LimitsConfig()
    assert config.store == StoreConfig()
    assert config.report == ReportConfig()
    assert replace(config.ncu, metrics=()) == NcuConfig()
    assert config.search == SearchConfig()
    assert config.launch == LaunchConfig()
    assert (config.retry, config.dry_run, config.output) == ("", False, "table")


def test_the_default_file_of_each_group_names_all_of_its_settings() -> None:
    """One that is missing there would take its default, and could not be set on the command line."""
    config = compose(["experiment=reduction"])
    groups = {name: set(vars(value)) for name, value in vars(config).items() if is_dataclass(value)}
    assert {*GROUPS} - {"experiment"} < {*groups}
    assert {name: set(config.composed[name]) for name in groups} == groups


@pytest.mark.parametrize("choices", [*zip(EXPERIMENTS), *zip_longest(*CHOICES.values(), fillvalue="")], ids=" ".join)
def test_every_file_composes_and_validates(choices: tuple[str, ...]) -> None:
    assert compose([*filter(None, choices)]).family


def test_no_arguments_mean_the_reduction_study() -> None:
    config = compose([])
    assert (config.experiment, config.family) == ("reduction", "reduction")


def test_precision_is_ordered() -> None:
    quick, default, precise = (compose([f"measure={name}"]).measure for name in ("quick", "default", "precise"))
    assert quick.target > default.target > precise.target
    assert quick.max_seconds < default.max_seconds < precise.max_seconds
    assert compose(["measure=hot"]).measure.modes == ("cold", "hot", "total")


def test_groups_combine() -> None:
    for measure, device in (("quick", "cpu"), ("precise", "cuda")):
        config = compose([f"measure={measure}", f"device={device}"])
        assert config.device.backends == (device,)


def test_metrics_are_added_to_the_set() -> None:
    config = compose(["+ncu.metrics=[dram__bytes_read.sum]"])
    assert config.ncu.extra_metrics == ("dram__bytes_read.sum",)
    assert "launch__grid_dim_z" in config.ncu.metrics
