"""The control group by which the kernel limits a sandbox's memory, and what happens where none can be made."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cuprof.sandbox import cgroup, confinement
from cuprof.sandbox.cgroup import PREFIX, ROOT, join_group
from cuprof.sandbox.settings import Sandbox
from tests.sandbox.confined import GROUPED, run


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder that is taken for the group of this process, without the files that a kernel puts there."""
    (tmp_path / "groups" / "mine").mkdir(parents=True)
    (tmp_path / "self").write_text("7:memory:/elsewhere\n0::/mine\n")
    monkeypatch.setattr(cgroup, "ROOT", tmp_path / "groups")
    monkeypatch.setattr(cgroup, "OWN", tmp_path / "self")
    yield tmp_path / "groups" / "mine"
    assert not [each for each in list_open() if each.startswith(str(tmp_path))]


def list_open() -> Iterator[str]:
    """Yield what this process has open; its threads may close some meanwhile."""
    for handle in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(FileNotFoundError):
            yield os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115


@pytest.mark.parametrize("enabled", ["", "cpu memory"])
def test_where_no_group_can_be_made_nothing_is_left(own: Path, enabled: str) -> None:
    for folder in (own, own.parent):
        (folder / "cgroup.subtree_control").write_text(enabled)
    assert join_group(1 << 28) is None
    assert sorted(each.name for each in own.parent.rglob("*")) == ["cgroup.subtree_control"] * 2 + ["mine"]


@pytest.mark.parametrize("line", ["", "7:memory:/mine", "0::/../../other"])
def test_a_process_whose_group_is_out_of_sight_gets_none(own: Path, line: str) -> None:
    cgroup.OWN.write_text(f"{line}\n")
    (own.parent / "cgroup.subtree_control").write_text("memory")
    assert join_group(1 << 28) is None


def test_groups_that_killed_keepers_left_are_removed(own: Path) -> None:
    left, used = own.parent / f"{PREFIX}{1 << 30}", own.parent / f"{PREFIX}{os.getpid()}"
    left.mkdir()
    used.mkdir()
    join_group(1 << 28)
    assert (left.exists(), used.exists()) == (False, True)


@pytest.fixture
def limited(full: Sandbox) -> Sandbox:
    """Return a sandbox whose memory the kernel limits."""
    if (group := join_group(1 << 28)) is None:
        pytest.skip("no control group can be made here")
    group.leave()
    group.end()
    return Sandbox(memory_bytes=100_000_000)


def test_the_kernel_ends_all_at_once_and_nothing_is_left(limited: Sandbox) -> None:
    code = """
print(open("/proc/self/cgroup").read().strip().rpartition("/")[2], flush=True)
with open("/tmp/one", "wb") as file:
    for _ in range(50):
        file.write(bytes(1 << 20))
os.fork()
held = bytearray(40_000_000)
time.sleep(300)
"""
    done = run(code, limited, GROUPED)
    assert done.returncode == -signal.SIGKILL
    assert done.stderr.endswith("cuprof: more memory is needed, over the limit of 0.10 GB\n")
    name = done.stdout.strip()  # other sandboxes have groups, too
    assert name.startswith(PREFIX)
    assert not any(name in groups for _, groups, _ in os.walk(ROOT))


def test_memory_that_is_not_taken_does_not_count(limited: Sandbox) -> None:
    done = run("held = [os.dup(0) for _ in range(450)]; time.sleep(1); print(len(held))", limited, GROUPED)
    assert (done.stdout, done.stderr, done.returncode) == ("450\n", "", 0)


def test_what_is_inside_can_neither_leave_nor_change_the_limit(limited: Sandbox) -> None:
    code = f"""
own = open("/proc/self/cgroup").read().partition("::")[2].strip()
for path in ("/sys/fs/cgroup/cgroup.procs", f"/sys/fs/cgroup{{own}}/memory.max"):
    try:
        open(path, "w").write("0")
    except OSError as error:
        print(type(error).__name__)
print("{PREFIX}" in own)
"""
    *refused, inside = run(code, limited, GROUPED).stdout.split()
    assert inside == "True"
    assert len(refused) == 2


@pytest.mark.parametrize(("line", "most"), [("0::/mine", 300), ("4:cpu:/\n3:pids:/mine/inner", 100), ("0::/", 300)])
def test_a_container_or_a_user_with_few_threads_is_left_most_of_them(
    own: Path, monkeypatch: pytest.MonkeyPatch, line: str, most: int
) -> None:
    cgroup.OWN.write_text(line)
    limits = {"mine": "max", ".": "1200", "pids/mine": "400", "pids/mine/inner": "1000"}
    for name, text in limits.items():
        folder = cgroup.ROOT / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pids.max").write_text(f"{text}\n")
    assert confinement.find_most_threads() == most
    monkeypatch.setattr(cgroup, "OWN", own / "nowhere")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for limit, of_user in (((80, 100), 20), ((1 << 20,) * 2, 4096), ((resource.RLIM_INFINITY,) * 2, 4096)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: limit)
        assert confinement.find_most_threads() == of_user
