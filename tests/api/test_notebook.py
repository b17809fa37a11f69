"""What a notebook shows: a bar while trials run, a table afterwards."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.api import result
from cuprof.api.entry import Defined
from cuprof.api.result import Comparison, is_notebook
from cuprof.core.project import Project
from cuprof.core.records import State
from cuprof.engine.running import SweepResult
from cuprof.families.origin import load_family
from cuprof.report.load import load_study
from tests.report.study_data import Made, fill, open_store

QUICK = ("measure=quick", "measure.modes=[cold]", "measure.max_seconds=0.01", "measure.settle_seconds=0", "report=none")


@pytest.mark.parametrize("shell", [None, SimpleNamespace(kernel=object())])
def test_a_process_that_merely_imported_ipykernel_is_no_notebook(monkeypatch: pytest.MonkeyPatch, shell: Any) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert is_notebook() is (shell is not None)


def test_a_comparison_is_a_table_with_verdicts(tmp_path: Path) -> None:
    made = (
        Made("base", 20.0, tune={"block": 64}),
        Made("fast<er>", 5.0, tune={"block": 64}),
        Made("broken", tune={"block": 64}, state=State.WRONG_RESULT, message="sum[0] = 1 & 2"),
    )
    with open_store(tmp_path) as store:
        study = load_study(store, sweep_id=fill(store, made, baseline="base"))
    comparison = Comparison(study, Project(tmp_path), tmp_path / "pages")
    html = comparison._repr_html_()
    assert html.count("<tr>") == 4
    assert "fast&lt;er&gt;" in html
    assert "sum[0] = 1 &amp; 2" in html
    assert [row["variant"] for row in comparison.rows] == ["base", "fast<er>", "broken"]
    assert list(comparison.verdicts.values()) == [{"fast<er>": "faster", "broken": "wrong_result"}]
    assert comparison.summary == "fast<er>: 1 faster"
    assert "base (base)" in str(comparison)
    assert comparison.report(tmp_path / "here").is_file()


def test_a_comparison_is_read_where_its_sweep_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep whose server went away has its results in a file."""
    with open_store(tmp_path) as store:
        sweep_id, url = fill(store, (Made("base", 20.0),), baseline="base"), store.url
    monkeypatch.setattr(result, "run_sweep", lambda *given, **named: SweepResult(sweep_id, url=url))
    family = load_family(Path(__file__).parents[1] / "data" / "families" / "vector")
    comparison = result.run(family, ["store.url=postgresql://nowhere/none", "report=none"], Project(tmp_path))
    assert [row["variant"] for row in comparison.rows] == ["base"]


def test_verdicts_are_of_each_problem(tmp_path: Path) -> None:
    times = {"mine": (5.0, 40.0, 5.0), "also": (40.0, 5.0, 20.0)}
    made = [
        Made(variant, median, {"n": 1000 * (place + 1)})
        for variant, medians in ({"base": (20.0, 20.0, 20.0)} | times).items()
        for place, median in enumerate(medians)
    ]
    with open_store(tmp_path) as store:
        study = load_study(store, sweep_id=fill(store, made, baseline="base"))
    comparison = Comparison(study, Project(tmp_path), tmp_path / "pages")
    assert [(problem, found["mine"]) for problem, found in comparison.verdicts.items()] == [
        ("n=1000", "faster"),
        ("n=2000", "slower"),
        ("n=3000", "faster"),
    ]
    assert comparison.summary.splitlines()[0] == "mine: 2 faster, 1 slower"


def test_a_script_that_uses_its_results_can_be_swept() -> None:
    """Planning runs the script without results: nothing that it does with them may fail."""
    defined: Any = Defined()
    assert [*defined.rows] == []
    microseconds = defined.rows[0]["cold_ns"] / 1000
    assert f"{defined.summary} {microseconds:.1f}{defined.verdicts['n=1000']['mine']}" == " "
    assert defined.verdicts["n=1000"]["mine"] == "faster"
    assert round(2 * microseconds, 2) - 1 > 1
    assert dict(defined.verdicts.items()) == {}
    assert not isinstance(defined.rows, list)
    defined.report("pages").unlink()


CELLS = (
    "import cuprof\nimport numpy\nWEIGHTS = numpy.full(64, 2, numpy.float32)",
    "import numpy as np\n\ndef mine(x):\n    return np.multiply(WEIGHTS, x)\n\n"
    "def wrong(x):\n    raise ValueError('in a cell')\n\n"
    "def inputs(rng, n=64):\n    return rng.random(n, np.float32)",
    f"result = cuprof.compare(mine, lambda x: x + x, wrong, inputs=inputs, settings={[*QUICK]!r})\nresult",
    "print(sorted(str(row['state']) for row in result.rows), *(row['message'] for row in result.rows))",
)


@pytest.mark.timeout(900)
def test_a_real_notebook_runs_a_comparison_of_what_its_cells_define(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    if find_spec("ipykernel") is None:
        pytest.skip("ipykernel is not installed")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    limits = {"timeout": 300, "startup_timeout": 300}
    nbclient.NotebookClient(book, **limits, resources={"metadata": {"path": str(tmp_path)}}).execute()
    *_, table = book.cells[2].outputs
    assert "mine (base)" in table.data["text/html"]
    said = book.cells[3].outputs[0].text
    assert said.startswith("['launch_error', 'ok', 'ok']")
    assert "ValueError: in a cell (" in said
    assert "line 7, in wrong" in said
