"""Reports with wrong bytes in them: one line about the file, never a traceback."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuprof.core.errors import ProfilerError
from cuprof.core.project import Project
from cuprof.ncu import report_file
from cuprof.ncu.report_file import read_report

SEEDS = 200
BLOCKS = (10, 145, 18954, 49852, 58329, 58402, 58473, 58595, 58648, 58836, 60071)
"""Where the blocks of instructions.ncu-rep begin, each with the size of its header."""
READ = """
import sys
from pathlib import Path
from cuprof.core.errors import ProfilerError
from cuprof.ncu.report_file import read_report
for path in sorted(Path(sys.argv[1]).glob("*.ncu-rep")):
    try:
        read_report(path)
    except ProfilerError as error:
        assert "\\n" not in str(error), error
        print(path.stem)
"""


def _damage(data: bytes, seed: int) -> bytes:
    """Return the report with 1 to 1000 bytes behind the magic ones replaced."""
    chosen, damaged = random.Random(seed), bytearray(data)
    for _ in range(chosen.choice((1, 10, 100, 1000))):
        damaged[chosen.randrange(4, len(damaged))] = chosen.randrange(256)
    return bytes(damaged)


def _with_a_wrong_name(recorded: Path, path: Path) -> Path:
    data = bytearray((recorded / "instructions.ncu-rep").read_bytes())
    data[data.index(b"duration.sum")] = 0xFF
    path.write_bytes(data)
    return path


def test_random_damage_is_refused_or_passes(recorded: Path, tmp_path: Path) -> None:
    """In a process of its own, because it is native code that reads the bytes."""
    for seed in range(SEEDS):
        whole = recorded / f"{('instructions', 'sections', 'crash')[seed % 3]}.ncu-rep"
        (tmp_path / f"{seed}.ncu-rep").write_bytes(_damage(whole.read_bytes(), seed))
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.split()) > SEEDS / 2


def test_a_metric_whose_name_is_no_text_is_damage(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(ProfilerError, match=r"could not be read \(the name of a metric is not text\)"):
        read_report(_with_a_wrong_name(recorded, tmp_path / "damaged.ncu-rep"))


@pytest.mark.parametrize("wrong", [b"\xff" * 100, b"\x70"], ids=["no message", "a field is missing"])
def test_a_launch_that_the_reader_cannot_decode_is_damage(
    recorded: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], wrong: bytes
) -> None:
    data = bytearray((recorded / "instructions.ncu-rep").read_bytes())
    second = BLOCKS[-1] + 4 + 47 + 4
    data[second : second + len(wrong)] = wrong
    (tmp_path / "damaged.ncu-rep").write_bytes(data)
    with pytest.raises(ProfilerError, match=r"could not be read \(a launch has no kernel name\)"):
        read_report(tmp_path / "damaged.ncu-rep")
    assert capfd.readouterr().err == ""


def test_a_launch_that_the_reader_leaves_out_is_missed(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version, results = report_file.check_frame(recorded / "instructions.ncu-rep")
    monkeypatch.setattr(report_file, "check_frame", lambda _: (version, results + 1))
    with pytest.raises(ProfilerError, match="only 2 of 3 launches that can be read"):
        read_report(recorded / "instructions.ncu-rep")


@pytest.mark.parametrize("block", BLOCKS)
def test_a_header_that_counts_more_than_there_is_never_gets_to_the_reader(
    recorded: Path, tmp_path: Path, block: int
) -> None:
    data = bytearray((recorded / "instructions.ncu-rep").read_bytes())
    sources, results = block + 5, block + 7
    assert (data[sources - 1], data[results - 1]) == (1 << 3, 2 << 3)
    data[results] += 1
    (tmp_path / "damaged.ncu-rep").write_bytes(data)
    with pytest.raises(ProfilerError, match="cut short or damaged"):
        read_report(tmp_path / "damaged.ncu-rep")


def test_the_command_refuses_a_damaged_report_in_one_line(
    recorded: Path, project: Project, cli: Callable[..., Any]
) -> None:
    _with_a_wrong_name(recorded, Path("damaged.ncu-rep"))
    good = str(recorded / "study_alone.ncu-rep")
    result = cli("ncu-import", good, "damaged.ncu-rep")
    assert (result.exit_code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert "damaged.ncu-rep could not be read" in result.err
    assert not (project.root / "db").exists()
