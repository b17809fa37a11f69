"""How a process in a sandbox ends, what it can do to others, its environment, and how a refusal is told."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cuprof.core.processes import child_environment
from cuprof.sandbox import probe
from cuprof.sandbox.landlock import find_version
from cuprof.sandbox.settings import Sandbox, inner_environment
from tests.living import LONG_S, command_of
from tests.sandbox.confined import HEAD, ROOT, run


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("os.abort()", -signal.SIGABRT),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
def test_it_ends_as_what_is_inside_ends(sandbox: Sandbox, code: str, expected: int) -> None:
    assert run(code, sandbox).returncode == expected


def test_what_it_starts_ends_with_it(sandbox: Sandbox) -> None:
    if not sandbox.namespaces and find_version() < 6:
        pytest.skip("without namespaces and Landlock that is the guardian's to do")
    lasting = f"61.{time.time_ns()}"  # as no process of another test's
    done = run(f"subprocess.Popen(['sleep', '{lasting}'], start_new_session=True); print('left')", sandbox)
    assert done.stdout == "left\n"
    assert f"sleep {lasting}" not in map(command_of, psutil.process_iter())


@pytest.mark.skipif(find_version() < 6, reason="this kernel's Landlock does not keep signals within")
def test_chains_that_fork_faster_than_they_are_listed_end_with_it() -> None:
    name = f"{time.time_ns()}"[-15:]
    code = f"""
import ctypes
def fork_on():
    while True:
        if os.fork():
            os._exit(0)
        os.setsid()
for _ in range(4):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, b"{name}")  # children are called so as well
        fork_on()
time.sleep(1)
print("left")
"""
    done = run(code, Sandbox(namespaces=False))
    assert done.stdout == "left\n", done
    found = [each.info for each in psutil.process_iter(["name", "status"]) if each.info["name"] == name]
    assert all(each["status"] == psutil.STATUS_ZOMBIE for each in found), found


def test_what_watches_it_is_of_another_session(sandbox: Sandbox) -> None:
    """Linux weighs sessions against one another, by a number in a file of any of their processes."""
    assert run("print(os.getsid(os.getppid()) == os.getppid())", sandbox).stdout == "True\n"


def test_privileges_cannot_be_had_again(sandbox: Sandbox) -> None:
    done = run("print(open('/proc/self/status').read())", sandbox)
    assert "NoNewPrivs:\t1" in done.stdout
    for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb") if sandbox.namespaces else ("Prm", "Eff"):
        assert f"Cap{kind}:\t{0:016x}" in done.stdout
    if sandbox.namespaces:
        code = "import ctypes; print(ctypes.CDLL(None).mount(None, b'/', None, 0x20 | 0x1000, None))"  # rw again
        assert run(code, sandbox).stdout == "-1\n"


def test_others_are_out_of_reach(full: Sandbox) -> None:
    code = f"""
import socket
def tell(action):
    try:
        action()
        print("reached")
    except OSError as error:
        print(error.strerror)
tell(lambda: os.kill({os.getpid()}, 0))
tell(lambda: socket.create_connection(("127.0.0.1", 9), 60))
print(sorted(os.listdir("/dev")))
"""
    told = run(code, full).stdout.splitlines()
    assert told[0] == "No such process"
    # There is a loopback of its own at most, and with a filter no socket of this family.
    assert told[1] in ("Network is unreachable", "Connection refused", "Address family not supported by protocol")
    assert "sda" not in told[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_the_same(full: Sandbox) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None or ask(python, "import cuprof.sandbox.confinement") != "":
        pytest.skip("an ordinary user has no Python that can read this checkout")
    told = ask(
        python, f"{HEAD}\nprint(os.getuid(), os.getpid())\nopen({str(ROOT / 'cuprof' / 'left')!r}, 'w')", full.encode()
    )
    assert told.startswith("65534 2\n")
    assert "Read-only file system" in told


def ask(python: str, code: str, *arguments: str) -> str:
    """Return what an ordinary user's Python says."""
    done = subprocess.run(
        [python, "-B", "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=ROOT,
        user=65534,
        group=65534,
        extra_groups=(),
    )
    return done.stdout


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_it_has_a_keyring_of_its_own(full: Sandbox) -> None:
    code = """
import ctypes
get_keyring, session = 0, -3
print(ctypes.CDLL(None).syscall(*map(ctypes.c_long, (250, get_keyring, session, 0))))
"""
    outside = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    if int(outside) < 0:
        pytest.skip("this system has no keys")
    unfiltered = HEAD.replace(
        "confinement.confine(", "confinement.refuse_calls = lambda **_: None\nconfinement.confine("
    )
    inside = run(code, full, unfiltered)
    assert int(inside.stdout) not in (int(outside), -1), inside.stderr


def test_a_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Sandbox(visible=("/tmp/no/such/folder",))
    done = run("print('went on')", wanted)
    assert (done.returncode, done.stdout) == (125, "")
    assert "the sandbox is refused" in done.stderr
    monkeypatch.setattr(
        probe, "child_command", lambda _: (sys.executable, "-c", "import sys; sys.exit('refused: by me')")
    )
    assert probe.find_refusal() == "by me"


def test_the_environment_holds_no_secrets() -> None:
    given = {"PATH": "/bin", "PGPASSWORD": "x", "CUDA_HOME": "/cuda", "LC_ALL": "C", "AWS_SECRET": "x", "HOME": "/me"}
    given |= {"NVIDIA_API_KEY": "x", "PYTHON_TOKEN": "x"}
    assert inner_environment(given, Sandbox(namespaces=False)).keys() == {"PATH", "CUDA_HOME", "LC_ALL", "HOME"}
    for sandbox in (Sandbox(), Sandbox(namespaces=False, home="/tmp/own")):
        inner = inner_environment({**given, "CUPY_CACHE_DIR": "/mine"}, sandbox)
        assert inner["CUPY_CACHE_DIR"].startswith("/tmp/")
        assert not {"PGPASSWORD", "AWS_SECRET"} & inner.keys()


def test_caches_are_there_for_modules_that_were_imported_before(sandbox: Sandbox, tmp_path: Path) -> None:
    inner = replace(sandbox, home=str(tmp_path / "home"))
    Path(inner.home).mkdir()
    done = subprocess.run(
        [sys.executable, "-B", "-c", f"{HEAD}open(os.environ['CUPY_CACHE_DIR'] + '/kernel', 'w')", inner.encode()],
        timeout=LONG_S,
        check=False,
        env=inner_environment(child_environment(), inner),
        cwd=ROOT,
    )
    assert done.returncode == 0
