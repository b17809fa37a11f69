"""`cuprof diff` of invented trials of real families, built again without a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cuprof.builds.sass import find_nvdisasm
from cuprof.core.errors import MissingDependencyError
from cuprof.core.point import Point
from cuprof.core.project import Project
from cuprof.core.records import DeviceFacts, SweepFacts, Trial
from cuprof.store.store import Store
from tests.conftest import Result

Cli = Callable[..., Result]
GPU = DeviceFacts("cuda", 0, "Test GPU", identity={"name": "Test GPU", "compute_capability": "9.0"})
SOURCE = """extern "C" __global__ void scale(const float *x, float *y)
{
    y[threadIdx.x] = x[threadIdx.x] * FACTOR;
}
"""


@pytest.fixture
def trials(project: Project) -> None:
    facts = SweepFacts("s", "s", "scaled", "plain", "0" * 64, "cuprof sweep", {}, "host", {}, {})
    made = []
    texts = {"plain": SOURCE, "commented": f"// a remark\n{SOURCE}", "added": SOURCE.replace("FACTOR;", "FACTOR + 1;")}
    for number, (name, text) in enumerate(texts.items()):
        label = f"scaled/{name} · n=32"
        identity = f"{number:032x}"
        made.append(
            Trial(identity, "scaled", name, "cuda", "kernel", Point(n=32), Point(), label, GPU, text, f"{number:064x}")
        )
    with Store.open(project.database_url) as store:
        store.enlist(store.begin_sweep(facts), made)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build the stored text as the family would: NVRTC, one macro."""
    pytest.importorskip("cuda.bindings.nvrtc")
    try:
        find_nvdisasm()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    from cuprof.builds.machine_code import hash_code
    from cuprof.builds.nvrtc import NvrtcBuild
    from cuprof.engine import building

    def rebuild(trial: object, project: object) -> dict[str, bytes]:
        image = NvrtcBuild(trial.source_text, "scale.cu", "sm_90", {"FACTOR": 3}).run().image  # type: ignore[attr-defined]
        return {hash_code(image): image}

    def rebuild_ptx(trial: object, project: object) -> str:
        build = NvrtcBuild(trial.source_text, "scale.cu", "compute_90", {"FACTOR": 3})  # type: ignore[attr-defined]
        return build.run().image.decode()

    monkeypatch.setattr(building, "rebuild", rebuild)
    monkeypatch.setattr(building, "rebuild_ptx", rebuild_ptx)


def test_ptx_is_folded_to_what_changed(cli: Cli, trials: None, compiled: None) -> None:
    assert "the same PTX" in cli("diff", "plain", "commented", "--ptx").out
    shown = cli("diff", "plain", "added", "--ptx")
    changes = [line.split()[1] for line in shown.out.splitlines() if line[:2] in ("- ", "+ ") and "%" in line]
    assert changes == ["mul.f32", "fma.rn.f32"], shown.out
    assert "lines alike @@" in shown.out


def test_source_is_folded_to_what_changed(cli: Cli, trials: None) -> None:
    shown = cli("diff", "scaled/plain", "scaled/added")
    assert (shown.exit_code, shown.err) == (0, "")
    assert "-    y[threadIdx.x] = x[threadIdx.x] * FACTOR;\n" in shown.out
    assert "+    y[threadIdx.x] = x[threadIdx.x] * FACTOR + 1;\n" in shown.out
    assert json.loads(cli("diff", "plain", "plain", "--json").out)["same_source"] is True


def test_the_same_machine_code_is_said_so(cli: Cli, trials: None, compiled: None) -> None:
    assert "the same machine code" in cli("diff", "plain", "commented", "--sass").out


def test_changed_opcodes_are_counted(cli: Cli, trials: None, compiled: None) -> None:
    data = json.loads(cli("diff", "plain", "added", "--sass", "--json").out)
    assert data["same_code"] is False
    assert data["opcodes"]["FMUL"] == [1, 0]
    (kernel,) = data["kernels"]
    assert any(text.startswith("- FMUL") for text in kernel["changes"])
    assert "FMUL" in cli("diff", "plain", "added", "--sass").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plian", "added"), "unknown variant 'plian': did you mean plain?"),
        (("plain", "added:block=3"), "no trial of added:block=3 is stored there"),
        (("plain", "added", "--sass"), "unknown family 'scaled'"),
    ],
)
def test_bad_input_is_one_line(cli: Cli, trials: None, words: tuple[str, ...], said: str) -> None:
    shown = cli("diff", *words)
    assert (shown.exit_code, shown.out) == (2, "")
    assert said in shown.err
    assert shown.err.count("\n") == 1
