"""What a stranger's files may hold: each is refused in one line, or read, and nothing of it runs or is overwritten."""

from __future__ import annotations

import copy
import json
import os
import random
import struct
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from cuprof.core.errors import BuildError, CuprofError, UsageError
from cuprof.core.project import Project
from cuprof.families import Point
from cuprof.interop import definition, schema
from cuprof.interop.definition import find_files
from cuprof.interop.origins import Definition, copy_alone
from cuprof.interop.results import read_results
from cuprof.interop.schema import Solution
from cuprof.interop.solutions import list_modules, load_function
from tests.conftest import Result
from tests.interop.samples import DEFINITION, SOLUTIONS, WORKLOADS, solution, write_beside

STORED = {"type": "safetensors", "path": "w.safetensors", "tensor_key": "w"}
WITH_TENSOR = {**WORKLOADS[0], "inputs": {**WORKLOADS[0]["inputs"], "weight": STORED}}


def with_tensor(path: str) -> list[dict[str, Any]]:
    return [{**WITH_TENSOR, "inputs": {**WITH_TENSOR["inputs"], "weight": {**STORED, "path": path}}}]


def draw(folder: Path) -> Any:
    return Definition(folder).load().generate(Point(rows=4), np.random.default_rng(1))


@pytest.fixture
def project(project: Project) -> Iterator[Project]:
    """Go on with the project, and hold that nothing in it was written to."""
    victim = project.root / "victim.py"
    victim.write_text("as it was")
    yield project
    assert victim.read_text() == "as it was"


def test_a_path_with_dots_overwrites_nothing_and_reads_nothing_outside(project: Project, tmp_path: Path) -> None:
    folder = write_beside(project.root / "task", workloads=with_tensor("../victim.py"))
    with pytest.raises(UsageError, match=r"\.\./victim\.py lies outside of .*; a file that a definition names lies in"):
        copy_alone(str(folder), tmp_path / "copy")
    with pytest.raises(UsageError, match="lies outside of"):
        draw(folder)
    (folder / "link").symlink_to(project.root / "victim.py")
    write_beside(folder, workloads=with_tensor("link"))
    with pytest.raises(UsageError, match="lies outside of"):
        copy_alone(str(folder), tmp_path / "other")
    write_beside(folder, workloads=with_tensor(str(project.root / "victim.py")))
    with pytest.raises(UsageError, match="lies outside of"):
        draw(folder)


def test_nothing_of_a_definition_runs_where_it_is_planned(project: Project, cli: Callable[..., Result]) -> None:
    touch = f"open({str(project.root / 'ran')!r}, 'w')"
    for changed in (
        {"name": f'x"""\n{touch}\n"""'},
        {"axes": {**DEFINITION["axes"], "half": {"type": "expr", "expression": f"(lambda: {touch})()"}}},
        {"constraints": [f"(lambda: {touch})()"]},
        {"constraints": ["[x for x in ().__class__.__base__.__subclasses__()]"]},
        {"reference": DEFINITION["reference"] + f"\n{touch}\n"},
        {"description": f"\x1b]0;title\x07 {touch}"},
    ):
        write_beside(project.root / "task", definition={**DEFINITION, **changed})
        done = cli("sweep", "task", "dry_run=true")
        assert done.err.count("error:") <= 1
        assert "Traceback" not in done.err
        assert not (project.root / "ran").exists(), changed


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = write_beside(tmp_path / "task")
    for name in ("definition.json", "workload.jsonl", "solution_writing.json"):
        (folder / name).rename(folder / f"kept_{name}")
        (folder / name).symlink_to(f"kept_{name}")
        assert find_files(folder)[0] == folder / "definition.json"  # inside of it a link is like a file
        (folder / f"kept_{name}").rename(tmp_path / name)
        (folder / name).unlink()
        (folder / name).symlink_to(tmp_path / name)
        with pytest.raises(UsageError, match=f"{name} lies outside of {folder}"):
            find_files(folder)
        (folder / name).unlink()
        (tmp_path / name).rename(folder / name)
    (tmp_path / "link").symlink_to(folder)
    (folder / "typed.json").symlink_to(write_beside(tmp_path / "other") / "definition.json")
    assert find_files(tmp_path / "link")[0] == tmp_path / "link" / "definition.json"
    assert find_files(folder / "typed.json")[0] == folder / "typed.json"


@pytest.mark.parametrize("dot", [".", " . ", " \\\n."])
def test_a_dotted_name_without_end_is_refused_at_once(tmp_path: Path, dot: str) -> None:
    endless = f"import {dot.join('a' * 200_000)}\n"
    with pytest.raises(UsageError, match="the reference has a name with more than 1000 dots"):
        Definition(write_beside(tmp_path, definition={**DEFINITION, "reference": endless})).load()
    with pytest.raises(BuildError, match=r"odd: main\.py has a name with more than 1000 dots"):
        list_modules(msgspec.convert(solution("odd", {"main.py": endless}), Solution))


def test_an_expression_that_never_ends_is_refused_at_once(tmp_path: Path) -> None:
    axes = {**DEFINITION["axes"], "half": {"type": "expr", "expression": "9**9**9"}}
    with pytest.raises(UsageError, match="is too large"):
        Definition(write_beside(tmp_path, definition={**DEFINITION, "axes": axes})).load().signature(Point(rows=4))


def change(of: str, **parts: Any) -> dict[str, Any]:
    return {of: {**DEFINITION[of], **parts}}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (change("inputs", x={"shape": ["²"], "dtype": "float32"}), "x has the axis ²"),
        (change("inputs", x={"shape": ["1" * 5000], "dtype": "float32"}), "Exceeds the limit"),
        (change("axes", hidden={"type": "const", "value": 2**63}), "has the shape .*, which no array has"),
        (change("inputs", x={"shape": ["0", str(2**41)], "dtype": "float32"}), "has the shape .*, which no array has"),
        (change("outputs", y={"shape": ["1"] * 65, "dtype": "float32"}), "y has 65 dimensions; at most 64 are"),
        (change("axes", half={"type": "expr", "expression": ""}), "'' is not an expression"),
        (change("axes", half={"type": "expr", "expression": "hidden / 3"}), "axis half is 21.3.*; it must be a whole"),
    ],
)
def test_a_shape_that_no_array_has_is_told_with_its_file(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=f"^{tmp_path}/(definition.json|workload.jsonl:1) is no .*{told}"):
        Definition(write_beside(tmp_path, definition={**DEFINITION, **changed})).load()


def test_a_warning_of_python_about_an_expression_is_not_shown(
    project: Project, cli: Callable[..., Result], recwarn: pytest.WarningsRecorder
) -> None:
    half = {"half": {"type": "expr", "expression": "1or 2"}}
    write_beside(project.root / "task", definition={**DEFINITION, **change("axes", **half)})
    assert cli("sweep", "task", "dry_run=true").exit_code == 0
    assert [str(each.message) for each in recwarn] == []


def test_an_error_quotes_a_part_of_what_is_endless(project: Project, cli: Callable[..., Result]) -> None:
    x = {"shape": ["rows"], "dtype": "z" * 1_000_000}
    write_beside(project.root / "task", definition={**DEFINITION, **change("inputs", x=x)})
    assert 1000 < len(cli("sweep", "task", "dry_run=true").err) < 5000


def test_more_workloads_than_can_be_planned_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert schema.MOST_WORKLOADS == 10_000
    monkeypatch.setattr(schema, "MOST_WORKLOADS", 100)
    many = [{**WORKLOADS[0], "uuid": str(number)} for number in range(120)]
    folder = write_beside(tmp_path, workloads=many[:60])
    Definition(folder).read()
    (folder / "workload_2.jsonl").write_text("\n".join(map(json.dumps, many[60:])))
    with pytest.raises(UsageError, match=r"workload_2\.jsonl: a definition has 100 workloads at most; take some"):
        Definition(folder).read()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"uuid": "aaaa-1"}, "another workload has the uuid aaaa-1"),
        ({"tolerance": {"max_atol": -1.0}}, "bounds are 0 or more"),
        ({"correctness": {"max_error_cap": -1e-3}}, "bounds are 0 or more"),
        ({"correctness": {"required_matched_ratio": 0.0}}, "the ratio that must match is more than 0"),
    ],
)
def test_a_workload_that_would_not_run_or_be_right_whatever_it_gives_is_refused(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=rf"workload\.jsonl:2 is no workload .*{told}"):
        Definition(write_beside(tmp_path, workloads=[WORKLOADS[0], {**WORKLOADS[1], **changed}])).read()


def test_a_cap_of_nought_is_a_cap(tmp_path: Path) -> None:
    shares = {**WORKLOADS[0], "tolerance": {"required_matched_ratio": 0.5, "max_error_cap": 0.0}}
    family = Definition(write_beside(tmp_path, workloads=[shares])).load()
    assert family.tolerance(Point(rows=4), {}, {}).absolute == 0


def test_more_than_can_be_computed_for_all_workloads_is_refused(tmp_path: Path) -> None:
    half = {f"a{number}": {"type": "expr", "expression": "rows"} for number in range(998)}
    folder = write_beside(tmp_path, definition={**DEFINITION, **change("axes", **half)})
    (folder / "workload.jsonl").write_text("\n".join(json.dumps({**WORKLOADS[0], "uuid": str(n)}) for n in range(30)))
    with pytest.raises(UsageError, match="with 1001 expressions and constraints has 29 workloads at most; take some"):
        Definition(folder).read()


@pytest.mark.parametrize(
    "changed",
    [
        change("axes", **{f"a{number}": {"type": "const", "value": 1} for number in range(40_000)}),
        change("inputs", **{f"x{number}": {"shape": None, "dtype": "int32"} for number in range(40_000)}),
        change("outputs", **{f"y{number}": {"shape": ["1"] * 7, "dtype": "int32"} for number in range(5_000)}),
    ],
    ids=["axes", "inputs", "outputs"],
)
def test_more_to_size_for_all_workloads_than_can_be_planned_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    inputs = dict.fromkeys(changed.get("inputs", DEFINITION["inputs"]), WORKLOADS[0]["inputs"]["eps"])
    folder = write_beside(tmp_path, definition={**DEFINITION, **changed})
    many = [json.dumps({**WORKLOADS[0], "inputs": inputs, "uuid": str(number)}) for number in range(25)]
    (folder / "workload.jsonl").write_text("\n".join(many))
    with pytest.raises(UsageError, match=r"with 400\d\d axes, inputs, outputs and dimensions of these has 24"):
        Definition(folder).read()
    (folder / "workload.jsonl").write_text("\n".join(many[:-1]))
    assert len(Definition(folder).read().workloads) == 24


def test_more_solutions_than_are_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition, "MOST_SOLUTIONS", 1)
    with pytest.raises(UsageError, match="solutions; at most 1 are read"):
        Definition(write_beside(tmp_path)).load()


def test_solutions_of_more_bytes_than_are_held_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_beside(tmp_path)
    for number in range(5):  # each alone is small enough
        (folder / f"solution_link_{number}.json").symlink_to("solution_writing.json")
    sizes = sum(file.stat().st_size for file in folder.glob("solution*"))
    monkeypatch.setattr(definition, "MOST_SOLUTION_BYTES", sizes)
    Definition(folder).load()
    monkeypatch.setattr(definition, "MOST_SOLUTION_BYTES", sizes - 1)
    with pytest.raises(UsageError, match=rf"definition\.json has solutions of {sizes} bytes; at most {sizes - 1} are"):
        Definition(folder).load()
    Definition(folder).read(with_solutions=False)


def test_a_folder_called_definitions_is_no_trace_set_by_itself(tmp_path: Path) -> None:
    assert Definition(write_beside(tmp_path / "definitions" / "mine")).load().presets


def test_parts_of_a_line_that_are_passed_over_take_no_memory(tmp_path: Path) -> None:
    folder = write_beside(tmp_path)
    for plain in (WORKLOADS[0], {"definition": DEFINITION["name"], "workload": WORKLOADS[0]}):
        (folder / "workload.jsonl").write_text(json.dumps(plain)[:-1] + ', "tags": [' + "{}, " * 500_000 + "{}]}")
        tracemalloc.start()
        Definition(folder).read()
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "huge", "circle", "long"])
def test_what_is_no_file_is_refused_and_does_not_hang(tmp_path: Path, kind: str) -> None:
    folder = write_beside(tmp_path / "task", workloads=with_tensor("w.safetensors" if kind != "long" else "w" * 5000))
    place = folder / "w.safetensors"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "folder":
        place.mkdir()
    elif kind == "circle":
        place.symlink_to(place)
    elif kind == "huge":
        place.write_bytes(struct.pack("<Q", 2**62))
    with pytest.raises(UsageError):
        draw(folder)


def test_links_in_a_circle_in_the_place_of_samples_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.bin").symlink_to("a.bin")
    file = tmp_path / "results.json"
    file.write_text(json.dumps(NVBENCH))
    with suppress(UsageError):  # from Python 3.13 on it is a file that is not there
        assert all(trial.relative_error > 0 for trial in read_results(file).trials)


@pytest.mark.parametrize("name", ["definition.json", "workload.jsonl", "solution_writing.json"])
def test_sources_of_any_kind_and_size_are_bounded(tmp_path: Path, name: str) -> None:
    folder = write_beside(tmp_path / "task")
    (folder / name).unlink()
    with (folder / name).open("wb") as stream:
        stream.truncate(3 << 30)
    with pytest.raises(UsageError, match="bytes; at most 67108864 are read"):
        Definition(folder).load()
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(UsageError):
        Definition(folder).load()


def test_a_header_of_tensors_is_bounded(tmp_path: Path) -> None:
    folder = write_beside(tmp_path, workloads=[WITH_TENSOR])
    (folder / "w.safetensors").write_bytes(struct.pack("<Q", 20 << 20))
    with pytest.raises(UsageError, match="has 20971520 bytes; at most 16777216 are read"):
        draw(folder)


TENSOR = {"dtype": "F32", "shape": [64]}
HEADERS = [
    ({}, "no tensor w"), ([], "Expected `object`, got `array`"), (None, "Expected `object`, got `null`"),
    ({"w": None}, "Expected `object`, got `null`"), ({"w": {}}, "missing required field `dtype`"),
    ({"w": {**TENSOR, "data_offsets": [0]}}, "Expected `array` of length 2"),
    ({"w": {**TENSOR, "data_offsets": [0, 2**70]}}, "w has .* bytes, and its shape takes 256"),
    ({"w": {"dtype": [], "shape": 3}}, "Expected `str`, got `array`"),
    ({"w": {**TENSOR, "data_offsets": [-300, -44]}}, "w lies at bytes -300 to -44, and the file holds 100"),
    ({"w": {**TENSOR, "data_offsets": [-256, 0]}, "more": "x" * 300}, "w lies at bytes -256 to 0, and the file holds"),
    ({"w": {**TENSOR, "data_offsets": [0, 256]}}, "w lies at bytes 0 to 256, and the file holds 100"),
    ({"w": {**TENSOR, "data_offsets": ["a", "b"]}}, "Expected `int`, got `str`"),
    ({"w": {**TENSOR, "data_offsets": "ab"}}, "Expected `array`, got `str`"),
]  # fmt: skip


@pytest.mark.parametrize(("header", "told"), HEADERS)
def test_headers_of_tensors_that_lie_are_refused(tmp_path: Path, header: Any, told: str) -> None:
    text = json.dumps(header).encode()
    folder = write_beside(tmp_path, workloads=[WITH_TENSOR])
    (folder / "w.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(100))
    with pytest.raises(UsageError, match=f"w.safetensors cannot be read as safetensors: .*{told}"):
        draw(folder)


def test_sources_are_unpacked_where_nobody_else_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = tmp_path / "cache/cuprof/solutions"
    own.mkdir(parents=True)
    own.chmod(0o777)
    writing = msgspec.convert(SOLUTIONS[1], Solution)
    load_function(writing)
    assert own.stat().st_mode & 0o777 == 0o700
    (planted,) = own.rglob("kernel.py")
    planted.write_text("run = print")
    monkeypatch.delitem(sys.modules, f"_cuprof_solution_{planted.parent.parent.name}")
    assert load_function(writing) is not print
    monkeypatch.setattr(os, "geteuid", lambda: own.stat().st_uid + 1)
    with pytest.raises(BuildError, match=r"cannot be written to .* \(it belongs to another user\); set XDG_CACHE_HOME"):
        load_function(writing)


@pytest.mark.parametrize("source", ["L" * 300 + ".py", "main.py/more.py"])
def test_sources_that_cannot_be_written_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    given = msgspec.convert(solution("odd", {"main.py": "", source: ""}), Solution)
    with pytest.raises(BuildError, match=f"odd cannot be written to {tmp_path}.*; set XDG_CACHE_HOME"):
        load_function(given)


SMALL: list[Any] = [None, True, -1, 0, 1.5, "", "x", [], {}, [1, [2]], {"a": {}}]
LARGE: list[Any] = [10**400, -(2**63), 1e308, 5e-324, float("nan"), float("inf"), "9**9**9", "(" * 300, "../" * 90]
MORE: list[Any] = ["\0", "\ud800", "x" * 5000, "(lambda: 1)()", "__import__('os')", "/dev/zero", {"type": "expr"}]
ODD = SMALL + LARGE + MORE


def mutate(value: Any, rng: random.Random) -> Any:
    """Return JSON with one part replaced, removed or doubled."""
    changed = copy.deepcopy(value)
    holders: list[tuple[Any, Any]] = []
    waiting = [changed]
    while waiting:
        one = waiting.pop()
        keys = [*one] if isinstance(one, dict) else [*range(len(one))] if isinstance(one, list) else []
        holders += [(one, key) for key in keys]
        waiting += [one[key] for key in keys]
    if not holders:
        return rng.choice(ODD)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        holder, key = rng.choice(holders)
        if rng.random() < 0.15 and isinstance(holder, dict):
            holder.pop(key, None)
        elif rng.random() < 0.1 and isinstance(holder, dict):
            holder[str(rng.choice(ODD))[:300]] = rng.choice(ODD)
        elif isinstance(holder, dict) or key < len(holder):
            holder[key] = rng.choice(ODD)
    return changed


def damaged(text: str, rng: random.Random) -> str:
    """Return text with a piece cut out, doubled or written over."""
    begin = rng.randrange(len(text))
    end = min(len(text), begin + rng.randrange(1, 40))
    piece = rng.choice(["", text[begin:end] * 2, rng.choice(["{", "[", '"', "9" * 6000, "[" * 3000, "\0", "NaN", "é"])])
    return text[:begin] + piece + text[end:]


def try_definition(folder: Path, rng: random.Random) -> None:
    parts = {"definition.json": DEFINITION, "workload.jsonl": WITH_TENSOR, "solution_a.json": SOLUTIONS[1]}
    changed = rng.choice([*parts])
    for name, part in parts.items():
        (folder / name).write_text(json.dumps(mutate(part, rng) if name == changed else part))
    if rng.random() < 0.3:
        file = rng.choice(sorted(folder.glob("*.json*")))
        file.write_text(damaged(file.read_text(errors="replace"), rng), errors="replace")
    family = Definition(folder).load()
    for problem in family.presets.values():
        if family.constraint and family.constraint(Point(problem)) is None:
            family.signature(Point(problem))
            family.useful_bytes(Point(problem))
    find_files(folder)


def number(tag: str, value: Any, name: str = "value") -> dict[str, Any]:
    return {"tag": tag, "data": [{"name": name, "type": "float64", "value": str(value)}]}


SUMMARIES = [
    number("nv/cold/time/gpu/mean", 1e-5), number("nv/cold/time/gpu/stdev/relative", 0.01),
    number("nv/cold/sample_size", 80),
    {"tag": "nv/json/bin:nv/cold/sample_times", "data": [{"name": "filename", "value": "a.bin"},
                                                        {"name": "size", "value": "4"}]},
]  # fmt: skip
STATE = {"device": 0, "axis_values": [{"name": "n", "type": "int64", "value": "64"}], "summaries": SUMMARIES}
NVBENCH = {"devices": [{"id": 0, "name": "A GPU"}], "benchmarks": [{"name": "copy", "states": [STATE, STATE]}]}
ROW = {"block": 64, "time": 1.5, "times": [1.4, 1.5, 1.6]}
CACHE = {
    "device_name": "A GPU", "kernel_name": "k", "tune_params_keys": ["block"], "objective": "time",
    "cache": {"64": ROW, "128": {**ROW, "block": 128, "time": "InvalidConfig"}},
}  # fmt: skip
T4 = {
    "results": [
        {
            "configuration": {"block": 64}, "invalidity": "correct", "times": {"runtimes": [1.0, 2.0]},
            "measurements": [{"name": "time", "value": 1.5, "unit": "ms"}], "objectives": ["time"],
        }
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    "changed", [[], {"benchmarks": [[]]}, {**NVBENCH, "benchmarks": [{"name": "x", "states": [[]]}]}, {"benchmarks": 3}]
)
def test_results_of_another_form_are_told(tmp_path: Path, changed: Any) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(changed))
    with pytest.raises(UsageError, match=r"results\.json is not what nvbench writes \(a part is a list, an object"):
        read_results(file)


def try_results(folder: Path, rng: random.Random) -> None:
    kind = rng.choice([NVBENCH, CACHE, T4])
    text = json.dumps(mutate(kind, rng))
    text = damaged(text, rng) if rng.random() < 0.3 else text
    (folder / "a.bin").write_bytes(bytes(rng.randrange(20)))
    file = folder / "results.json"
    file.write_text(text, errors="replace")
    for trial in read_results(file).trials:
        assert np.all(np.isfinite(trial.durations_ns) & (trial.durations_ns > 0))
        hash((trial.problem, trial.tunables, trial.problem.label, trial.tunables.label))


def attack(folder: Path, count: int, seed: int) -> int:
    """Return how many of so many mutated files are read; all others are refused by an error of cuprof's."""
    rng, read, told = random.Random(seed), 0, list[str]()
    for number_ in range(count):
        place = folder / str(number_)
        place.mkdir()
        try:
            rng.choice([try_definition, try_results])(place, rng)
            read += 1
        except CuprofError as error:
            told.append(str(error))
    assert [text for text in told if "\n" in text] == []
    return read


def test_mutated_files_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    assert 20 < attack(tmp_path, 300, seed=1) < 290


@pytest.mark.slow
def test_many_mutated_files_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    assert attack(tmp_path, 2000, seed=2) > 100
