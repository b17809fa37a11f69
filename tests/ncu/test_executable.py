"""Finding ncu and reading its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.core.errors import ProfilerError
from cuprof.ncu.executable import get_executable, list_candidates, list_metric_names


def _program(path: Path, output: str = "Version 2025.3.1.0 (build 1)", code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_the_recorded_version_is_read(fake_ncu) -> None:
    found = get_executable(str(fake_ncu.path))
    assert (found.path, found.version) == (fake_ncu.path, "2025.3.1")
    assert get_executable(str(fake_ncu.folder)).path == fake_ncu.path  # a folder stands for the ncu in it


def test_the_order_is_path_environment_usual_folders_newest_first(tmp_path: Path) -> None:
    for name in ("2024.1.0", "2025.3.1", "2025.10.0"):
        _program(tmp_path / "opt/nvidia/nsight-compute" / name / "ncu")
    for name in ("cuda-12.8", "cuda-13.0"):
        _program(tmp_path / "usr/local" / name / "bin/ncu")
    on_path, home = _program(tmp_path / "bin/ncu"), _program(tmp_path / "home/bin/ncu")
    environment = {"PATH": str(on_path.parent), "CUDA_HOME": str(tmp_path / "home")}
    candidates = [path for path in list_candidates(environment, tmp_path) if path.exists()]
    assert candidates == [
        on_path,
        home,
        tmp_path / "usr/local/cuda-13.0/bin/ncu",
        tmp_path / "usr/local/cuda-12.8/bin/ncu",
        tmp_path / "opt/nvidia/nsight-compute/2025.10.0/ncu",
        tmp_path / "opt/nvidia/nsight-compute/2025.3.1/ncu",
        tmp_path / "opt/nvidia/nsight-compute/2024.1.0/ncu",
    ]
    assert get_executable("", {}, tmp_path).path == candidates[2]


def test_no_ncu_anywhere_says_where_it_was_looked_for_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ProfilerError, match=r"not found on PATH, in CUDA_HOME.*ncu\.path=") as raised:
        get_executable("", {"PATH": str(tmp_path)}, tmp_path)
    assert raised.value.exit_code == 2


def test_an_override_that_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ncu").write_text("not executable")
    with pytest.raises(ProfilerError, match="not a program that can be run"):
        get_executable(str(tmp_path / "ncu"))


@pytest.mark.parametrize(
    ("output", "code", "message"),
    [
        ("Version 2019.5.0 (build 1)", 0, "is Nsight Compute 2019.5.0, and cuprof needs 2022.2"),
        ("segmentation fault", 0, "named no version"),
        ("broken installation", 3, r"exit code 3 .*\(broken installation\)"),
    ],
)
def test_too_old_or_broken(tmp_path: Path, output: str, code: int, message: str) -> None:
    program = _program(tmp_path / "ncu", output, code)
    with pytest.raises(ProfilerError, match=message):
        _ = get_executable(str(program)).version


def test_the_metrics_of_the_devices_here_are_asked_for(fake_ncu) -> None:
    names = list_metric_names(get_executable(str(fake_ncu.path)))
    assert "dram__bytes_read" in names
    assert "Chip" not in names
