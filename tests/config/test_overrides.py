from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from cuprof.config.composer import Composer, compose
from cuprof.config.overrides import MOST_VALUES, read_settings, split_jobs
from cuprof.core.errors import ConfigError
from cuprof.core.project import Project, bundled, find_project


def values(override: str) -> object:
    overrides, axes = read_settings([override])
    assert overrides == []
    (found,) = axes.values()
    return found


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("problem.n=2**24", ["2**24"]),
        ("problem.n=2**20,2**24", ["2**20", "2**24"]),
        ("problem.n=3*1024,5", ["3*1024", 5]),
        ("problem.n=2**(20+1),7", ["2**(20+1)", 7]),
        ("problem.n=(2**20)+1", ["(2**20)+1"]),
        ("problem.n=2**(", ["2**("]),
        ("problem.n=16_777_216", [16777216]),
        ("problem.n=1e6", [1e6]),
        ("problem.n=range(10,20)", list(range(10, 20))),
        ("problem.n=range(10,20,5)", [10, 15]),
        ("problem.n=choice(2**20,2**24)", ["2**20", "2**24"]),
        ("problem.n=sort(3,1,2)", [1, 2, 3]),
        ("problem.n=[1,2]", [1, 2]),
        ("problem.n='2**24'", ["2**24"]),
        ("+problem.n=1,2", [1, 2]),
        ("++problem.n=1,2", [1, 2]),
        ("problem.preset=T4-3x3-A,E1", ["T4-3x3-A", "E1"]),
        ("tune.block=64,128", [64, 128]),
        ("tune.unroll=true,false", [True, False]),
        ("variants=sequential,last_warp", ["sequential", "last_warp"]),
        ("variants=cuda_*", ["cuda_*"]),
        ("variants=glob(cuda_*,exclude=*slow)", ["cuda_*", "!*slow"]),
        ("variants='a b'", ["a b"]),
    ],
)
def test_an_axis_becomes_a_list_in_one_job(typed: str, expected: list[object]) -> None:
    assert values(typed) == expected


@pytest.mark.parametrize("typed", ["report=false", "search=5"])
def test_a_group_is_chosen_by_name_whatever_it_looks_like(typed: str) -> None:
    group, _, name = typed.partition("=")
    assert read_settings([typed])[0] == [f"{group}='{name}'"]


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="'\\$"), min_size=1))
def test_any_quoted_name_reaches_the_configuration_as_it_is(text: str) -> None:
    composed = OmegaConf.create({"variants": ["all"], "problem": {}, "device": {"cuda": "auto"}})
    OmegaConf.set_struct(composed, True)
    typed = [f"variants='{text}'", f"problem.name=['{text}',1]", "device.cuda=0,1"]
    Composer(find_project(), typed).set_axes(composed)
    assert OmegaConf.to_container(composed, resolve=True) == {
        "variants": [text],
        "problem": {"name": [text, 1]},
        "device": {"cuda": [0, 1]},
    }


def test_an_axis_may_refer_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIZE", "2**10")
    assert compose(["problem.n=${oc.env:SIZE},7", "report.path=pages/${problem.n}"]).problem["n"] == ("2**10", 7)


@pytest.mark.parametrize(
    ("typed", "jobs"),
    [
        (["measure=quick"], 1),
        (["measure=quick,precise"], 2),
        (["measure=quick,precise", "device.opencl=0,1,2", "device.cuda=0,1"], 6),
        (["measure=quick,precise", "problem.n=1,2,3"], 2),
        (["measure.max_samples=range(100,400,100)"], 3),
        (["measure=glob(*)"], len([*(bundled("conf") / "measure").glob("[!_]*.yaml")])),
        (["hydra.launcher.n_jobs=1,2"], 1),
        (["measure.modes=[cold,hot]"], 1),
    ],
)
def test_a_list_on_another_key_makes_jobs(typed: list[str], jobs: int, project: Project) -> None:
    overrides, _ = read_settings(typed)
    assert len(split_jobs(overrides, Composer(project, []).hydra.config_loader)) == jobs


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            ["check.seed=range(0,1000000000000)"],
            "expands to more than 1,000 values",
        ),
        (
            ["check.seed=range(0,40)", "measure.warmup=range(0,40)"],
            "the lists make 1,600 jobs",
        ),
        (["check.seed=range(1,5,0)"], "with a step of 0; write range(start,stop,step)"),
    ],
)
def test_more_jobs_than_can_be_composed_are_refused_at_once(typed: list[str], message: str, project: Project) -> None:
    overrides, _ = read_settings(typed)
    with pytest.raises(ConfigError, match=re.escape(message)):
        split_jobs(overrides, Composer(project, []).hydra.config_loader)


def test_other_settings_stay_as_they_were_typed() -> None:
    typed = ["experiment=reduction", "+extra='a b'", "~measure.target", "~tune", "launch=joblib"]
    assert read_settings(typed)[0] == typed


def test_all_of_every_tunable_is_one_word() -> None:
    assert read_settings(["tune=all", "tune.block=64"])[1] == {"tune.all": ["all"], "tune.block": [64]}


def test_adding_metrics_extends_the_set() -> None:
    assert read_settings(["+ncu.metrics=[dram__bytes_read.sum]"])[1] == {"ncu.extra_metrics": ["dram__bytes_read.sum"]}
    assert read_settings(["ncu.metrics=[a]"])[0] == ["ncu.metrics=[a]"]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("reduction", "key=value"),
        ("problem=8", "problem.NAME=VALUE or problem.preset=NAME"),
        ("tune=8", "tune.NAME=VALUE"),
        ("problem.n=interval(1,2)", "range(start,stop,step)"),
        ("problem.n=", "takes numbers and names"),
        ("problem.n=null", "takes numbers and names"),
        ("problem.n={a:1}", "takes numbers and names"),
        ("problem.n=[]", "expands to no values"),
        ("problem.n=range(0,1000000000000)", f"{MOST_VALUES:,}"),
        (
            "problem.n=range(1,5,0)",
            "with a step of 0; write range(start,stop,step)",
        ),
        ("problem.n=range(0,nan)", "has a range without an end"),
        ("problem.n=[1", "cannot read"),
        ("measure=[a", "cannot read"),
        (
            f"store.url={'{a: ' * 500}1{'}' * 500}",
            "the value of store.url is nested too deeply; give it fewer brackets",
        ),
        ("problem.n=2**20,", "'problem.n=2**20,' ends with a comma; leave it out, or go on without a space"),
        ("measure=quick,", "ends with a comma"),
        ("experiment=[1]", "'experiment=[1]': a list for experiment takes names; write experiment=NAME"),
        ("launch=[slurm,null]", "takes names; write launch=NAME"),
        ("search=[[quick]]", "takes names; write search=NAME"),
        ("measure=quick,[1]", "takes names; write measure=NAME"),
        ("hydra/output=[true]", "takes names; write hydra/output=NAME"),
        ("=5", "not a setting"),
        ("", "not a setting"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(typed: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings([typed])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
