"""What files a process in a sandbox sees, and where it can write."""

from __future__ import annotations

import ast
import errno
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.core.processes import child_environment
from cuprof.core.project import OWN_BUILDS
from cuprof.sandbox.settings import Sandbox, inner_environment
from cuprof.sandbox.view import MOST_INODES
from tests.sandbox.confined import HEAD, ROOT, run


def test_no_file_but_its_own_can_be_written(full: Sandbox, tmp_path: Path) -> None:
    package = ROOT / "cuprof"
    code = f"""
for path in ({str(package / "left")!r}, os.path.expanduser("~/left"), {str(tmp_path / "left")!r}, "/run/left/x"):
    try:
        open(path, "w")
        print("wrote", path)
    except OSError as error:
        print("no")
open("/tmp/own", "w").write("x"); open("/dev/shm/own", "w").write("x"); open("beside", "w")
print(sorted(os.listdir("/tmp")))
"""
    done = run(code, full)
    assert done.stderr == ""
    *tried, listed = done.stdout.splitlines()
    assert tried == ["no"] * 4
    shown = {ROOT.parts[2]} if ROOT.is_relative_to("/tmp") else set()  # a checkout in /tmp is still to be read
    assert set(ast.literal_eval(listed)) == {"cuprof", "own"} | shown


def test_what_is_to_be_seen_is_seen_and_written_where_allowed(full: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "a földer"
    folder.mkdir()
    (folder / "seen").write_text("seen")
    (folder / "written").touch()
    shown = Sandbox(visible=(str(folder),), writable=(str(folder / "written"),))
    code = f"""
print(open({str(folder / "seen")!r}).read())
open({str(folder / "written")!r}, "r+").write("written")
open({str(folder / "seen")!r}, "r+")
"""
    done = run(code, shown)
    assert done.stdout == "seen\n"
    assert "Read-only file system" in done.stderr
    assert (folder / "written").read_text() == "written"
    assert (folder / "seen").read_text() == "seen"


def test_a_covered_folder_appears_empty_but_for_what_is_to_be_seen(full: Sandbox) -> None:
    with tempfile.TemporaryDirectory(dir=ROOT.parent if not ROOT.is_relative_to("/tmp") else "/opt") as folder:
        for name in ("own", "other"):
            Path(folder, name).mkdir()
            Path(folder, name, "text").write_text(name)
        shown = replace(full, covered=(folder,), visible=(f"{folder}/own",))
        code = f"""
print(os.listdir({folder!r}), open({folder!r} + "/own/text").read())
for place in ("left", "own/left"):
    try:
        open(os.path.join({folder!r}, place), "w")
    except OSError as error:
        print(error.strerror)
"""
        done = run(code, shown)
    assert done.stdout.splitlines() == ["['own'] own", *["Read-only file system"] * 2], done.stderr


def test_own_kernels_are_there_to_read_and_no_other_builds(
    full: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "kernel").write_text("cubin")
    (tmp_path / "other").touch()
    monkeypatch.setenv("CUPROF_CACHE", str(tmp_path))
    inner = inner_environment(child_environment(), full)
    assert inner["CUPROF_CACHE"] != str(tmp_path)
    monkeypatch.setenv(OWN_BUILDS, inner[OWN_BUILDS])
    code = f"""
from cuprof.core.project import own_builds
print((own_builds() / "kernel").read_text(), os.listdir({str(tmp_path)!r}))
(own_builds() / "kernel").write_text("mine")
"""
    done = run(code, full)
    assert done.stdout == "cubin ['own']\n"
    assert "Read-only file system" in done.stderr


def test_a_hidden_file_may_have_any_name(full: Sandbox, tmp_path: Path) -> None:
    hidden = tmp_path / "\udcff \n.py"
    hidden.touch()
    shown = replace(full, memory_bytes=1 << 29, visible=(str(tmp_path),), hidden=(str(hidden),))
    done = run("time.sleep(0.6); print('goes on')", shown)
    assert done.stdout == "goes on\n", done.stderr


def test_a_folder_with_a_databases_name_refuses_no_sandbox(full: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "results.sqlite"
    folder.mkdir()
    done = run("print('inside')", replace(full, visible=(str(tmp_path),), hidden=(str(folder),)))
    assert (done.stdout, done.stderr) == ("inside\n", "")


def test_what_no_size_shows_is_bounded_or_not_there(full: Sandbox) -> None:
    files = "os.statvfs('/tmp').f_files, os.statvfs('/dev').f_files"
    code = f"print({files}, os.path.exists('/dev/zero'), os.path.exists('/dev/null'))"
    done = run(code, replace(full, devices=False))
    assert done.stdout.split() == [str(MOST_INODES), "1024", "False", "True"], done.stderr


@pytest.mark.skipif(not Path("/proc/pagetypeinfo").exists(), reason="this kernel does not have it")
def test_what_others_wait_for_while_root_reads_it_is_empty(full: Sandbox) -> None:
    code = "print(*(os.stat(path).st_rdev for path in ('/proc/pagetypeinfo', '/dev/null')))"
    there, nothing = run(code, full).stdout.split()
    assert there == nothing != "0"


def test_the_kernels_switches_cannot_be_turned(full: Sandbox) -> None:
    code = """
for path in ("/proc/sys/kernel/hostname", "/proc/sys/vm/swappiness", "/proc/sysrq-trigger"):
    try:
        open(path, "w")
        print("opened", path)
    except OSError as error:
        print(error.strerror)
print(os.path.exists("/proc/self/status"))
"""
    *tried, own = run(code, full).stdout.splitlines()
    assert set(tried) <= {"Read-only file system", "No such file or directory", "Permission denied"}
    assert own == "True"


def test_it_takes_nothing_of_which_a_user_has_few(full: Sandbox) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.unshare(0x10000000), ctypes.get_errno(), libc.inotify_init(), ctypes.get_errno())
"""
    unfiltered = HEAD.replace(
        "confinement.confine(", "from cuprof.sandbox import seccomp\nseccomp.PACKAGES = ()\nconfinement.confine("
    )
    assert run(code, full, unfiltered).stdout.split() == ["-1", str(errno.ENOSPC), "-1", str(errno.EMFILE)]


def test_without_namespaces_no_terminal_is_read(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    code = f"""
for path in ({os.ttyname(theirs)!r}, "/dev/ptmx", "/dev/null", "/etc/passwd", "/dev/shm"):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NOCTTY))
        print("open")
    except PermissionError:
        print("held")
"""
    done = run(code, Sandbox(namespaces=False, home=str(tmp_path)))
    os.close(ours)
    os.close(theirs)
    assert done.stdout.split() == ["held"] * 2 + ["open"] * 3, done.stderr
