"""Errors of Hydra's in one line of ours; tests/cli/test_hydra_app.py provokes most of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.errors import MissingConfigException

from cuprof.config.explain import LAUNCHERS, explain


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_that_is_not_installed_is_told_with_its_extra(launcher: str) -> None:
    error = explain(MissingConfigException("", missing_cfg_file=f"hydra/launcher/{launcher}", options=["basic"]))
    assert str(error) == f"the launcher {launcher} is not available; pip install 'cuprof[{LAUNCHERS[launcher]}]'"


def test_what_a_launcher_cannot_start_is_told_in_its_scheduler_s_words() -> None:
    code = compile(
        "raise RuntimeError('sbatch: error:\\n invalid partition: gpu')", "/lib/hydra_plugins/some/launcher.py", "exec"
    )
    with pytest.raises(RuntimeError) as raised:
        exec(code)
    told = str(explain(raised.value, folders=[Path()]))
    assert told.startswith("the launcher failed: sbatch: error: invalid partition: gpu; ")
    assert explain(RuntimeError("elsewhere"), folders=[Path()]) is None
