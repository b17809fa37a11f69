"""The manifest of docs/examples/kubernetes, by Kubernetes' own schema, and the words that its pods run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from cuprof.cli.hydra_app import read_arguments
from cuprof.config.composer import compose
from cuprof.core.project import Project

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "kubernetes"
JOB = yaml.safe_load((FOLDER / "job.yaml").read_text())


def test_the_manifest_fits_the_schema() -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    validate(JOB, "1.31", strict=True)


def test_bad_input_ends_the_job_and_a_failed_trial_does_not(project: Project) -> None:
    (container,) = JOB["spec"]["template"]["spec"]["containers"]
    command, *words = container["args"]
    config = compose(read_arguments(command, words)[1], project)
    assert (config.exit, config.store.url != "") == ("done", True)
    rules = JOB["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules if 2 in rule.get("onExitCodes", {}).get("values", [])] == ["FailJob"]
    assert not [rule for rule in rules if 1 in rule.get("onExitCodes", {}).get("values", [])]


def test_the_image_runs_cuprof_with_extras_that_exist() -> None:
    lines = (FOLDER / "Containerfile").read_text().splitlines()
    assert json.loads(lines[-1].partition(" ")[2]) == ["cuprof"]
    extras = re.search(r"cuprof\[(.*?)\]", "\n".join(lines))
    known = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert extras
    assert all(f"\n{extra} = [" in known for extra in extras[1].split(","))
