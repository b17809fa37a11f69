from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from cuprof.cli.listing import LISTS
from cuprof.core.errors import CuprofError
from cuprof.core.project import Project
from tests.conftest import Result

Cli = Callable[..., Result]

FAMILY = '''
import numpy as np
from cuprof.families import Array, Axis, Family, Signature, Tolerance, Tunable

family = Family(
    name="{name}", title="A family", axes=(Axis("n", default=2**20, low=1, high=2**30),),
    signature=lambda p: Signature({{"x": Array((p.n,), "float32")}}, {{"y": Array((p.n,), "float32")}}),
    generate=lambda p, rng: {{"x": rng.random(p.n, np.float32)}},
    reference=lambda p, inputs: {{"y": inputs["x"]}},
    tolerance=lambda p, inputs, expected: Tolerance(),
    useful_bytes=lambda p: 8 * p.n,
)

@family.cpu("copy", tunables=(Tunable("chunk", (1, 2), default=2),))
def copy(p, tune, inputs, outputs):
    """Copy in one go."""
    return lambda: np.copyto(outputs["y"], inputs["x"])
'''


@pytest.fixture
def own(project: Project) -> Project:
    """Give the project a family that works, one that does not, and an experiment."""
    for name, text in {"mine": FAMILY.format(name="mine"), "broken": "import nothing_of_that_name\n"}.items():
        (project.root / "kernels" / name).mkdir(parents=True)
        (project.root / "kernels" / name / "family.py").write_text(text)
    (project.root / "conf" / "experiment").mkdir(parents=True)
    text = "# @package _global_\n# What I want\n# to know. And more.\nfamily: mine\n# not this\n"
    (project.root / "conf" / "experiment" / "mine.yaml").write_text(text)
    return project


def records(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0
    found: list[dict[str, object]] = json.loads(result.out)
    return found


def test_families_of_the_project_and_the_bundled_ones(cli: Cli, own: Project) -> None:
    families = {record["family"]: record for record in records(cli("list", "families", "--json"))}
    assert families["mine"]["axes"] == "n=2^20"
    assert families["mine"]["folder"] == str(own.root / "kernels" / "mine")
    assert "reduction" in families
    assert "nothing_of_that_name" in str(families["broken"]["title"])


def test_variants_of_one_family(cli: Cli, own: Project) -> None:
    (record,) = records(cli("list", "variants", "mine", "--json"))
    assert record == {
        "family": "mine",
        "variant": "copy (base)",
        "backend": "cpu",
        "tunables": "chunk=2 of 1,2",
        "description": "Copy in one go.",
    }


def test_variants_of_all_families_pass_a_broken_one_over(cli: Cli, own: Project) -> None:
    result = cli("list", "variants")
    assert result.exit_code == 0
    assert "Copy in one go." in result.out
    assert "warning: " in result.err
    assert "broken" in result.err


def test_a_broken_family_asked_for_by_name_is_an_error(cli: Cli, own: Project) -> None:
    assert cli("list", "variants", "broken").exit_code == 2


def test_experiments_with_the_first_sentence_of_their_comment(cli: Cli, own: Project) -> None:
    experiments = {record["experiment"]: record for record in records(cli("list", "experiments", "--json"))}
    assert experiments["mine"]["about"] == "What I want to know."
    assert "reduction" in experiments


def test_an_experiment_that_is_no_file_is_one_line(cli: Cli, own: Project) -> None:
    os.mkfifo(own.root / "conf" / "experiment" / "endless.yaml")
    result = cli("list", "experiments")
    assert (result.exit_code, result.err.count("\n")) == (2, 1)
    assert "endless.yaml cannot be read: it is not a file" in result.err


def test_alone_it_counts_everything_and_says_how_to_see_it(cli: Cli, own: Project) -> None:
    overview = {record["what"]: record for record in records(cli("list", "--json"))}
    assert list(overview) == list(LISTS)
    for what, record in overview.items():
        assert record["count"] == len(records(cli("list", what, "--json")))
        assert record["see"] == f"cuprof list {what}"


def test_the_overview_fits_a_narrow_terminal(cli: Cli, own: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli("list").out.splitlines()
    assert len(lines) == 2 + len(LISTS)
    assert max(map(len, lines)) <= 80


def test_the_host_is_always_a_device(cli: Cli, project: Project) -> None:
    assert "cpu" in {device["backend"] for device in records(cli("list", "devices", "--json"))}


def test_metrics_have_a_meaning(cli: Cli, project: Project) -> None:
    listed = records(cli("list", "metrics", "dram__bytes_read", "--json"))
    assert listed
    assert all("dram__bytes_read" in str(record["metric"]) and record["meaning"] for record in listed)


def test_tables_have_headings(cli: Cli, own: Project) -> None:
    assert cli("list", "families").out.split()[:3] == ["family", "title", "axes"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["list", "famlies"], "'famlies' is not known: did you mean families?"),
        (["list", "families", "x"], "unknown argument 'x' of cuprof list families"),
        (["list", "variants", "mien"], "unknown family 'mien'"),
    ],
)
def test_bad_input(cli: Cli, own: Project, argv: list[str], message: str) -> None:
    result = cli(*argv)
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_every_fact_of_a_device_is_a_record(cli: Cli, own: Project) -> None:
    facts = [record for record in records(cli("list", "devices", "--full", "--json")) if record["backend"] == "cpu"]
    named = {str(record["fact"]): record["value"] for record in facts}
    assert {"threads", "memory_bytes", "host"} <= set(named)
    assert isinstance(named["memory_bytes"], int)
    assert {record["index"] for record in facts} == {0}


def test_a_device_that_cannot_be_opened_is_passed_over(cli: Cli, own: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(backend: str, number: int | None = None) -> None:
        raise CuprofError(f"{backend} is out of order")

    monkeypatch.setattr("cuprof.backends.registry.find_facts", refuse)
    result = cli("list", "devices", "--full")
    assert result.exit_code == 0
    assert "warning: cpu 0: cpu is out of order" in result.err


def test_only_devices_have_a_full_list(cli: Cli, own: Project) -> None:
    result = cli("list", "families", "--full")
    assert result.exit_code == 2
    assert "--full" in result.err
