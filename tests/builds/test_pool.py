"""The folder of compiled sources: hits, damaged entries, folders that cannot be written, several processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cuprof.builds import BuildPool, Built, nvrtc
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.builds.ptxas import KernelFacts
from cuprof.core.errors import BuildError
from cuprof.core.project import kept_builds

pytestmark = pytest.mark.usefixtures("in_this_process")
TEXT = 'extern "C" __global__ void k() {}'


class Compiler:
    """Stand in for NVRTC and count."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, text: str, **given: Any) -> Built:
        self.calls.append({"text": text, **given})
        return Built(f"{text}{given['arch']}".encode(), "a lög", {"k": KernelFacts(8, 16, 0, 0)})


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    compiler = Compiler()
    monkeypatch.setattr(nvrtc.NvrtcBuild, "run", lambda build: compiler(**vars(build)))
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: "13.0")
    return compiler


@pytest.fixture
def cache(tmp_path: Path) -> BuildPool:
    return BuildPool(tmp_path / "made on demand" / "cubin")


def build(cache: BuildPool, text: str = TEXT, **changes: Any) -> tuple[Built, bool]:
    return cache.compile(NvrtcBuild(text, **{"name": "k.cu", "arch": "sm_90", "defines": {"A": 1}, **changes}))


def test_the_second_time_comes_from_the_folder_and_is_equal(cache: BuildPool, compiler: Compiler) -> None:
    first, cached_first = build(cache)
    second, cached_second = build(BuildPool(cache.kept.folder))
    assert (cached_first, cached_second) == (False, True)
    assert second == first
    assert len(compiler.calls) == 1


@pytest.mark.parametrize(
    "change",
    [{"text": TEXT + " "}, {"arch": "sm_80"}, {"defines": {"A": 2}}, {"defines": {}}, {"options": ("-G",)}],
    ids=str,
)
def test_other_content_is_compiled_anew(cache: BuildPool, compiler: Compiler, change: dict[str, Any]) -> None:
    build(cache)
    assert build(cache, **change)[1] is False
    assert len(compiler.calls) == 2


def test_the_order_and_type_of_defines_and_the_name_do_not_matter(cache: BuildPool, compiler: Compiler) -> None:
    build(cache, defines={"A": 1, "B": "2"})
    assert build(cache, defines={"B": 2, "A": "1"}, name="other.cu")[1] is True


def test_another_compiler_compiles_anew(cache: BuildPool, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    build(cache)
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: "13.1")
    assert build(cache)[1] is False


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"null", b"[]", b"{}", b'{"sha256": 5, "log": "", "kernels": {}}', b"\xff\xfe", "image", "no image"],
)
def test_a_damaged_entry_is_made_again(cache: BuildPool, compiler: Compiler, damage: bytes | str) -> None:
    right, _ = build(cache)
    (facts,), (image,) = cache.kept.folder.glob("*.json"), cache.kept.folder.glob("*.cubin")
    if damage == "image":
        image.write_bytes(image.read_bytes()[:-1])
    elif damage == "no image":
        image.unlink()
    else:
        assert isinstance(damage, bytes)
        facts.write_bytes(damage)
    assert build(cache) == (right, False)
    assert build(cache) == (right, True)


@pytest.mark.parametrize("kernels", [5, {"k": 5}, {"k": {"registers": 1, "unknown": 2}}])
def test_facts_of_another_form_are_made_again(cache: BuildPool, compiler: Compiler, kernels: object) -> None:
    build(cache)
    (path,) = cache.kept.folder.glob("*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "kernels": kernels}))
    assert build(cache)[1] is False


def test_a_folder_that_cannot_be_made_costs_the_reuse_alone(tmp_path: Path, compiler: Compiler) -> None:
    (tmp_path / "file").touch()
    cache = BuildPool(tmp_path / "file" / "cubin")
    assert build(cache)[1] is False
    assert build(cache)[1] is False


def test_a_full_disk_leaves_no_remains(cache: BuildPool, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    assert build(cache)[1] is False
    assert list(cache.kept.folder.iterdir()) == []


def test_what_does_not_compile_is_not_kept(cache: BuildPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(build: nvrtc.NvrtcBuild) -> Built:
        raise BuildError("no")

    monkeypatch.setattr(nvrtc.NvrtcBuild, "run", refuse)
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: "13.0")
    with pytest.raises(BuildError):
        build(cache)
    assert not cache.kept.folder.exists()


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_folder_that_others_may_write_is_neither_read_nor_written(cache: BuildPool, mode: int) -> None:
    kept = cache.kept
    kept.keep("planted", Built(b"image", ""))
    assert kept.find("planted") is not None
    assert kept.folder.stat().st_mode & 0o777 == 0o700
    kept.folder.chmod(mode)
    kept.keep("another", Built(b"image", ""))
    assert kept.find("planted") is None
    kept.folder.chmod(0o700)
    assert kept.find("another") is None


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"CUPROF_CACHE": "/c"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/cuprof/cubin"),
        ({"HOME": "/h"}, "/h/.cache/cuprof/cubin"),
        ({"CUPROF_CACHE": "", "HOME": "/h", "XDG_CACHE_HOME": ""}, "/h/.cache/cuprof/cubin"),
    ],
)
def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str) -> None:
    for name in ("CUPROF_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert kept_builds() == Path(folder)


@pytest.mark.parametrize(("cores", "workers", "threads"), [(16, 1, 15), (16, 2, 7), (2, 2, 1), (128, 2, 16)])
def test_builds_that_are_begun_leave_cores_to_those_who_wait(
    monkeypatch: pytest.MonkeyPatch, cache: BuildPool, cores: int, workers: int, threads: int
) -> None:
    begun: list[str] = []
    free = threading.Event()

    def wait(each: NvrtcBuild) -> Built:
        begun.append(each.text)
        assert free.wait(100)
        return Built(b"", "")

    monkeypatch.setattr(nvrtc.NvrtcBuild, "run", wait)
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: "13.0")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(cores))
    monkeypatch.setattr(BuildPool, "workers", workers)
    builds = [NvrtcBuild(str(number), "k.cu", "sm_90") for number in range(40)]
    for each in builds:
        cache.start(each)
    give_up = time.monotonic() + 100
    while len(begun) < threads and time.monotonic() < give_up:
        time.sleep(0.01)
    assert len(begun) == threads
    free.set()
    for each in builds:
        cache.compile(each)
    assert len(begun) == 40


RACER = """
import sys
from pathlib import Path
from types import SimpleNamespace
from cuprof.builds import BuildPool, Built
from cuprof.builds import nvrtc, pool
pool.COMPILERS = SimpleNamespace(run=lambda build, limit_s: build.run())
nvrtc.nvrtc_version = lambda: "13.0"
nvrtc.NvrtcBuild.run = lambda build: Built(build.text.encode() * 5000, "log", {})
for number in range(150):
    text = str(number)
    built, _ = BuildPool(Path(sys.argv[1])).compile(nvrtc.NvrtcBuild(text, "k", "sm_90"))
    assert built.image == text.encode() * 5000
"""


def test_processes_at_the_same_time_always_get_the_right_image(tmp_path: Path) -> None:
    racers = [subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path)]) for _ in range(4)]
    assert [racer.wait() for racer in racers] == [0] * 4
    assert len(list(tmp_path.glob("*.cubin"))) == len(list(tmp_path.glob("*.json"))) == 150
    assert len(list(tmp_path.iterdir())) == 300
