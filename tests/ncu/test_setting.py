"""The setting of a collection, made from the composed configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.config.composer import compose
from cuprof.config.model import NcuConfig
from cuprof.core.errors import ConfigError
from cuprof.core.project import Project
from cuprof.core.records import Conditions
from cuprof.ncu.setting import make_setting

SETS = ("study", "memory", "compute", "instructions", "roofline", "occupancy", "full")


def test_metrics_are_those_asked_for_and_what_weighs_them(fake_ncu, tmp_path: Path) -> None:
    config = NcuConfig(path=str(fake_ncu.path), name="mine", metrics=("b__x.sum", "lts__t_sector_hit_rate.pct"),
                       extra_metrics=("b__x.sum", "a__y.sum"), sections=("Occupancy",), set="basic",
                       cache_control="none", time_limit_s=7.0, batch=3)  # fmt: skip
    setting = make_setting(config, Project(tmp_path))
    assert setting.request.metrics == (
        "b__x.sum",
        "lts__t_sector_hit_rate.pct",
        "a__y.sum",
        "section:Occupancy",
        "set:basic",
    )
    assert setting.collection.metrics == (*setting.request.metrics[:3], "lts__t_sectors.sum")
    assert (setting.collection.name, setting.collection.batch, setting.collection.time_limit_s) == ("mine", 3, 7.0)
    assert setting.request.conditions == Conditions("hot", "none", "application")
    assert setting.artifacts == tmp_path / "db" / "artifacts"


def test_a_collection_of_nothing_is_refused(fake_ncu, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="collects nothing"):
        make_setting(NcuConfig(path=str(fake_ncu.path)), Project(tmp_path))


def test_a_pattern_that_is_none_is_refused_before_anything_is_collected(fake_ncu, tmp_path: Path) -> None:
    config = NcuConfig(path=str(fake_ncu.path), metrics=("regex:(",))
    with pytest.raises(ConfigError, match=r"regex:\( is no regular expression: missing \)"):
        make_setting(config, Project(tmp_path))


@pytest.mark.parametrize("name", SETS)
def test_every_metric_set_composes(name: str) -> None:
    config = compose([f"ncu={name}"]).ncu
    assert (config.name, config.cache_control, config.clock_control, config.replay) == (name, "all", "none", "auto")
    assert config.metrics
    assert not config.enabled


def test_single_metrics_are_added_on_the_command_line() -> None:
    config = compose(["ncu=study", "+ncu.metrics=[dram__bytes_read.sum,sm__cycles_active.avg]"]).ncu
    assert len(config.metrics) == 4
    assert config.extra_metrics == ("dram__bytes_read.sum", "sm__cycles_active.avg")
