"""A variant is known by the files that it names and by those that it opens while it prepares."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.core.project import Project
from cuprof.engine.opened import OpenedFiles
from cuprof.families.origin import load_family
from cuprof.results.queries import load
from cuprof.worker.opened import recorded
from tests.api.test_sweep import QUICK
from tests.conftest import Result

FAMILY = """
from pathlib import Path

import numpy as np

from cuprof.families import Array, Axis, Family, Signature, Tolerance, Tunable

HERE = Path(__file__).parent

family = Family(
    name="reads",
    title="reads files",
    axes=(Axis("n", 8),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n, np.float32)},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"]},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
)

@family.cpu("names", files=("named.txt",))
def names(problem, tune, inputs, outputs):
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])

@family.cpu("opens")
def opens(problem, tune, inputs, outputs):
    factor = float((HERE / "opened.txt").read_text())
    return lambda: np.multiply(inputs["x"], np.float32(factor), out=outputs["y"])

@family.cpu("plain", tunables=(Tunable("times", (1, 2), 1),))
def plain(problem, tune, inputs, outputs):
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])
"""


@pytest.fixture
def folder(project: Project) -> Path:
    folder = project.root / "kernels" / "reads"
    folder.mkdir(parents=True)
    (folder / "family.py").write_text(FAMILY)
    (folder / "named.txt").write_text("1")
    (folder / "opened.txt").write_text("2")
    return folder


def test_a_changed_file_makes_a_stored_result_stale(folder: Path, cli: Callable[..., Result]) -> None:
    def sweep() -> dict[str, str]:
        """Return variant → "stored", or the state of its new run; the stored best may be timed again beside one."""
        words = ("sweep", "family=reads", *QUICK, "tune.times=2", "output=json")  # a tunable that one variant alone has
        missing = [row["state"] == "missing" for row in json.loads(cli(*words, "dry_run=true").out)]
        done = cli(*words)
        assert done.exit_code in (0, 1), done.err
        trials = {trial["variant"]: trial["state"] for trial in json.loads(done.out)["trials"]}
        assert list(trials) == ["names", "opens", "plain"]
        return {name: state if due else "stored" for (name, state), due in zip(trials.items(), missing, strict=True)}

    assert sweep() == {"names": "ok", "opens": "ok", "plain": "ok"}
    assert sweep() == {"names": "stored", "opens": "stored", "plain": "stored"}
    (folder / "named.txt").write_text("2")
    assert sweep() == {"names": "ok", "opens": "stored", "plain": "stored"}
    (folder / "opened.txt").write_text("3")
    assert sweep() == {"names": "stored", "opens": "wrong_result", "plain": "stored"}
    (folder / "opened.txt").write_text("2")
    assert sweep() == {"names": "stored", "opens": "stored", "plain": "stored"}
    assert set(load("trials").state) == {"ok", "wrong_result"}


def test_where_nothing_can_be_remembered_a_trial_is_measured_again(folder: Path, cli: Callable[..., Result]) -> None:
    """It is stored under the identity that includes what it opened all the same, so none that is stale counts."""
    (folder.parents[1] / "db").mkdir(exist_ok=True)
    (folder.parents[1] / "db" / "opened").touch()  # no folder can be made there
    words = ("sweep", "family=reads", "variants=opens", *QUICK, "output=json")
    states = []
    for text in ("2", "3"):
        (folder / "opened.txt").write_text(text)
        states += [trial["state"] for trial in json.loads(cli(*words).out)["trials"]]
    assert states == ["ok", "wrong_result"]


def test_a_named_file_that_is_gone_is_told(folder: Path, cli: Callable[..., Result]) -> None:
    (folder / "named.txt").unlink()
    done = cli("sweep", "family=reads", *QUICK)
    assert done.exit_code == 2
    assert "named.txt, which a variant names, cannot be read: No such file" in done.err


def test_data_that_is_read_counts_and_nothing_else_does(tmp_path: Path) -> None:
    for name in ("data.bin", "code.py", ".hidden", "written.txt"):
        (tmp_path / name).write_text("x")
    found: set[str] = set()
    (tmp_path / "data.bin").read_text()
    metadata = tmp_path / "packages" / "some-1.dist-info" / "entry_points.txt"
    metadata.parent.mkdir(parents=True)
    metadata.touch()
    with recorded(found):
        metadata.read_text()
        for name in ("data.bin", "code.py", ".hidden"):
            (tmp_path / name).read_text()
        (tmp_path / "written.txt").write_text("y")
        Path("/etc/hostname").exists() and Path("/etc/hostname").read_text()
        Path(json.__file__).read_text(encoding="utf-8")
    (tmp_path / "written.txt").read_text()
    assert found == {str(tmp_path / "data.bin")}


@pytest.mark.parametrize("paths", ["1", '"abc"', "null", '{"a": 1}'])
def test_a_damaged_memory_of_opened_files_is_no_memory(project: Project, paths: str) -> None:
    family = load_family(Path(__file__).parents[1] / "data" / "families" / "vector")
    memory = OpenedFiles(project, family)
    memory._learn("plain", ["data.bin"])
    (kept,) = (project.root / "db" / "opened").iterdir()
    kept.write_text(f'{{"plain": ["data.bin"], "cpu": {paths}}}')
    assert OpenedFiles(project, family)._known == {"plain": ["data.bin"]}
