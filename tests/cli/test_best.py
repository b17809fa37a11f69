"""`cuprof best`: the fastest configurations, and the forms they are taken along in. No number here was measured."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.core.project import Project
from cuprof.store.store import Store
from tests.conftest import Result
from tests.report.study_data import CPU, Made, fill

Cli = Callable[..., Result]
TIMES = {("tiled", 4): (10.0, 25.0), ("tiled", 8): (14.0, 20.0), ("plain", 4): (10.3, 21.0)}
"""Variant and warps → times at two sizes, in µs."""


@pytest.fixture
def stored(project: Project) -> Project:
    """Store a family with two problems, and two variants with a tunable of Triton's and one of their own."""
    made = [
        Made(variant, time, problem={"n": n, "dtype": "f32"}, tune={"BLOCK": 64, "num_warps": warps})
        for (variant, warps), times in TIMES.items()
        for n, time in zip((1024, 4096), times, strict=True)
    ]
    with Store.open(project.database_url) as store:
        fill(store, made)
    return project


def test_each_problem_has_its_fastest(cli: Cli, stored: Project) -> None:
    lines = cli("best", "invented").out.splitlines()
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "n=1024, dtype=f32 tiled · BLOCK=64, num_warps=4 10.00 40 1.000",
        "n=4096, dtype=f32 tiled · BLOCK=64, num_warps=8 20.00 40 1.000",
        "2 configurations are the best of 2 problems on Test GPU 9000",
    ]


def test_of_several_devices_the_others_are_named(cli: Cli, stored: Project) -> None:
    other = Made("plain", 1.0, problem={"n": 1024, "dtype": "f32"}, device=CPU)
    with Store.open(stored.database_url) as store:
        fill(store, [other, Made("plain", 30.0, problem={"n": 4096, "dtype": "f32"}, device=CPU)])
    said = "also stored: times on Test GPU 9000 (faster at 1 problem); choose with --device"
    assert cli("best", "invented").out.splitlines()[-1] == said
    assert "also stored" not in cli("best", "invented", "--device", "Test CPU 5").out


def test_as_a_portfolio_few_serve_all(cli: Cli, stored: Project) -> None:
    data = json.loads(cli("best", "invented", "--within", "10%", "--export", "json").out)
    assert (data["family"], data["device"], data["within"]) == ("invented", "Test GPU 9000", 0.1)
    assert [(each["problem"]["n"], each["variant"]) for each in data["problems"]] == [(1024, "plain"), (4096, "plain")]
    assert data["problems"][1]["tunables"] == {"BLOCK": 64, "num_warps": 4}
    assert data["problems"][1]["ratio"] == pytest.approx(1.05, rel=0.01)


def exported(cli: Cli, form: str, folder: Path) -> Path:
    file = folder / f"best.{'h' if form == 'header' else 'py'}"
    done = cli("best", "invented", "--export", form, "--output", str(file))
    assert (done.exit_code, done.out) == (0, "")
    return file


def test_python_picks_the_nearest_problem(cli: Cli, stored: Project, tmp_path: Path) -> None:
    pick = runpy.run_path(str(exported(cli, "python", tmp_path)))["pick"]
    assert pick(n=1000, dtype="f32") == ("tiled", {"BLOCK": 64, "num_warps": 4})
    assert pick(n=10**6, dtype="f32") == ("tiled", {"BLOCK": 64, "num_warps": 8})


def test_triton_takes_its_own_words_apart(
    cli: Cli, stored: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def config(own: dict[str, Any], **launch: int) -> tuple[dict[str, Any], dict[str, int]]:
        return own, launch

    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(Config=config))
    made = runpy.run_path(str(exported(cli, "triton", tmp_path)))
    assert made["CONFIGURATIONS"] == [({"BLOCK": 64}, {"num_warps": 4}), ({"BLOCK": 64}, {"num_warps": 8})]
    assert made["PROBLEMS"] == [({"n": 1024, "dtype": "f32"}, 0), ({"n": 4096, "dtype": "f32"}, 1)]


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_the_header_compiles(cli: Cli, stored: Project, tmp_path: Path) -> None:
    header = exported(cli, "header", tmp_path)
    source = tmp_path / "main.c"
    source.write_text(
        f'#include "{header.name}"\nint main(void) {{ return invented_pick(5000, "f32")->num_warps != 8; }}\n'
    )
    subprocess.run(["cc", "-Wall", "-Werror", str(source), "-o", str(tmp_path / "main"), "-lm"], check=True)
    subprocess.run([str(tmp_path / "main")], check=True)


def test_a_header_says_what_it_holds_and_who_wrote_it(cli: Cli, stored: Project, tmp_path: Path) -> None:
    def heading(*words: str) -> str:
        return " ".join(cli(*words).out.partition("*/")[0].split()[1:])

    best, each = ("best", "invented", "--export", "header"), "the best of each of 2 problems. Written by cuprof best."
    assert heading(*best) == f"invented on Test GPU 9000: 2 configurations, {each}"
    assert heading(*best, "--within", "10%") == f"invented on Test GPU 9000: 1 configuration within 10% of {each}"
    cli("portfolio", "invented", "--header", str(tmp_path / "few.h"))
    assert "Written by cuprof portfolio." in (tmp_path / "few.h").read_text()


def test_what_cannot_be_exported_is_one_line(cli: Cli, stored: Project) -> None:
    for argv, said in {
        ("best", "cuconv"): "no right time of family cuconv is stored; run cuprof sweep family=cuconv first",
        ("best", "invnted"): "unknown family 'invnted': did you mean invented",
        ("best", "--export", "portfolio"): "'portfolio' is not known: there are header, json",
        ("best", "invented", "--within", "5"): "'5' is not a share; write 1% or 0.01",
        ("portfolio", "reductoin"): "unknown family 'reductoin': did you mean reduction",
        ("best", "invented", "--export", "yaml"): "'yaml' is not known: there are header, json, python, triton",
        ("best", "invented", "--export", "json", "--output", "/nowhere/x"): "/nowhere/x cannot be written",
    }.items():
        done = cli(*argv)
        assert (done.exit_code, done.out) == (2, "")
        assert said in done.err
        assert done.err.count("\n") == 1
