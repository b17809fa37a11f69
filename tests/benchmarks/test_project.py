"""The kernels and the project that the scripts work on."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    agreement,
    faults,
    forms,
    known_truth,
    memory_pauses,
    ncu,
    profilers,
    side_by_side,
    tricks,
    triton_autotune,
)  # fmt: skip
from benchmarks.space import CONFIGURATIONS, PROJECT, N, copy_project
from benchmarks.ten_kernels import BUFFERS, LAUNCHES, NAMES, SOURCE
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.config.composer import compose
from cuprof.core.project import find_project
from cuprof.families import Point
from cuprof.families.origin import load_family

SCRIPTS = (agreement, faults, forms, known_truth, memory_pauses, profilers, side_by_side, tricks, triton_autotune)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_every_script_explains_itself(script, capsys):
    with pytest.raises(SystemExit) as ended:
        script.main(["--help"])
    assert ended.value.code == 0
    assert "--out" in capsys.readouterr().out


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
def test_the_reader_of_memory_compiles(arch):
    pytest.importorskip("cuda.bindings.nvrtc")
    source = memory_pauses.SOURCE
    cubin = NvrtcBuild(source.read_text(), name=source.name, arch=arch, defines={"READS": memory_pauses.READS}).run()
    assert list(cubin.kernels) == ["read_in_pieces"]


def test_the_space_is_that_of_the_experiment():
    family = load_family(PROJECT / "kernels" / "axpy")
    (axpy,) = family.variants.values()
    for configuration in CONFIGURATIONS:
        tune = Point(block=configuration.block, per_thread=configuration.per_thread)
        program = axpy.make(Point(n=N), tune)
        assert program.steps == (configuration.launch,)
        assert program.defines == configuration.defines
    assert len(set(CONFIGURATIONS)) == 48


def test_the_copied_project_composes_to_the_space(tmp_path, monkeypatch):
    monkeypatch.chdir(copy_project(tmp_path / "copy"))
    config = compose(["experiment=axpy", "report=none", "measure.modes=[cold]", *side_by_side.SEVEN])
    assert (config.family, config.measure.modes) == ("axpy", ("cold",))
    assert (config.measure.min_samples, config.measure.max_samples) == (7, 7)
    assert len(config.tune["block"]) * len(config.tune["per_thread"]) == len(CONFIGURATIONS)
    assert find_project().root == tmp_path / "copy"


def test_the_metrics_are_those_of_the_study():
    from cuprof.config.model import NcuConfig

    config = compose(["experiment=reduction", "ncu=study"])
    assert isinstance(config.ncu, NcuConfig)
    assert config.ncu.metrics == profilers.METRICS


def test_ncu_leaves_the_clocks_alone_and_flushes_before_each_pass():
    command = ncu.ncu_command(Path("x.ncu-rep"), ["a", "b"], ["k", "l"])
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[command.index("--cache-control") + 1] == "all"
    assert command[command.index("--kernel-name") + 1] == "regex:^(k|l)$"


def test_durations_come_from_the_report_file():
    recorded = Path(__file__).parents[1] / "data" / "ncu" / "recorded"
    found = ncu.read_durations(recorded / "memory_cold.ncu-rep")
    assert found["median_ns"] == {"read_all": 6432.0}
    assert found["low_ns"]["read_all"] <= 6432.0 <= found["high_ns"]["read_all"]
    assert ncu.count_launches(recorded / "instructions.ncu-rep") == 2


def test_the_ten_kernels_are_in_the_source_and_stay_within_their_buffers():
    text = SOURCE.read_text()
    assert len(NAMES) == len(set(NAMES)) == 10
    for launch in LAUNCHES:
        assert f"void {launch.kernel}(" in text
        assert all(value in BUFFERS for value in launch.args if isinstance(value, str))
        words = [int(value) for value in launch.args if isinstance(value, np.uint64)]
        if launch.kernel.startswith(("read_", "copy_")):
            assert words[0] * 16 <= BUFFERS["x"]
    assert BUFFERS["y"] >= 64 << 20


def test_the_pair_folds_every_number_once():
    family = load_family(PROJECT / "kernels" / "padded_read")
    problem = Point(steps=2)
    inputs = family.generate(problem, np.random.default_rng(1))
    folded = family.reference(problem, inputs)["folded"]
    assert np.bitwise_xor.reduce(folded) == np.bitwise_xor.reduce(inputs["x"])
    base = family.variant("base").make(problem, Point(spin_ns=0))
    other = family.variant("other").make(problem, Point(spin_ns=600))
    assert base.steps[0].args[:-1] == other.steps[0].args[:-1]
    assert other.steps[0].args[-1] == np.uint64(600)
    assert base.steps[0].args[1] * 4 == inputs["x"].size


def test_the_faulty_family_is_swept_in_a_project_of_its_own(tmp_path, monkeypatch):
    project = faults.make_project(tmp_path / "project")
    monkeypatch.chdir(project)
    config = compose(["experiment=faulty", "report=none", *faults.LIMITS])
    assert config.family == "faulty"
    assert (project / "kernels" / "faulty" / "family.py").is_file()
