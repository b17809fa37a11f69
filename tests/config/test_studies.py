"""An experiment that stands for several becomes a list of these, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.config.overrides import choose_experiments
from cuprof.core.errors import ConfigError
from cuprof.core.project import bundled

FIVE = "experiment=reduction,cuconv,convlab,filter3x3,cnn_layer"


def write(folder: Path, **files: str) -> Path:
    (folder / "experiment").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / "experiment" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


def test_all_studies_are_the_five_and_each_of_them_is_there() -> None:
    settings = ["measure=quick", "experiment=all_studies", "device=cpu"]
    assert choose_experiments(settings, [bundled("conf")]) == ["measure=quick", FIVE, "device=cpu"]
    for name in FIVE.partition("=")[2].split(","):
        assert (bundled("conf") / "experiment" / f"{name}.yaml").is_file()


def test_other_settings_stay_as_they_were_typed() -> None:
    settings = ["experiment=reduction,cuconv", "experiment=choice(a,b)", "problem.n=2**20", "experiment=unknown"]
    assert choose_experiments(settings, [bundled("conf")]) == settings


def test_a_users_own_list_comes_first_and_names_no_experiment_twice(tmp_path: Path) -> None:
    folder = write(tmp_path, all_studies="# @package _global_\nstudies: [reduction, mine]\n", mine="family: mine\n")
    folders = [folder, bundled("conf")]
    assert choose_experiments(["experiment=all_studies,mine"], folders) == ["experiment=reduction,mine"]


@pytest.mark.parametrize("setting", ["problem.n=2**20", "tune.block=64,128", "family=cuconv", "baseline=x", "~problem"])
def test_settings_of_one_family_do_not_combine(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"is of one family, and experiment=all_studies runs reduction, cuconv"):
        choose_experiments(["experiment=all_studies", setting], [bundled("conf")])


@pytest.mark.parametrize(
    "text",
    [
        "studies: reduction\n",
        "studies: []\n",
        "studies: [reduction]\nmeasure: {energy: true}\n",
        "studies: [several]\n",
        "studies: [all_studies]\n",
    ],
)
def test_a_list_that_cannot_be_is_refused(tmp_path: Path, text: str) -> None:
    folder = write(tmp_path, several=text)
    with pytest.raises(ConfigError, match=r"several.yaml: studies must be a list of single experiments, such as"):
        choose_experiments(["experiment=several"], [folder, bundled("conf")])
