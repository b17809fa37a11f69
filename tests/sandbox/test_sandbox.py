"""What a process in a sandbox can and cannot do, and how its end is told."""

from __future__ import annotations

import ast
import ctypes
import errno
import mmap
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cuprof.core.processes import child_environment
from cuprof.core.project import OWN_BUILDS
from cuprof.sandbox import confinement, probe, seccomp
from cuprof.sandbox.confinement import PENDING, PIPES, WATCHES
from cuprof.sandbox.kernel import drop_capabilities
from cuprof.sandbox.landlock import find_version
from cuprof.sandbox.settings import Sandbox, inner_environment
from cuprof.sandbox.view import MOST_INODES
from tests.living import LONG_S, command_of

ROOT = Path(__file__).parents[2]
GROUPED = """
import sys
from cuprof.sandbox import confinement
from cuprof.sandbox.settings import Sandbox
confinement.confine(Sandbox.decode(sys.argv[1]))
import os, signal, subprocess, time
"""
HEAD = GROUPED.replace("confinement.confine(", "confinement.join_group = lambda most: None\nconfinement.confine(")
"""Begin a process whose memory the keeper counts, also where the kernel could."""


def run(code: str, sandbox: Sandbox, head: str = HEAD) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-c", head + code, sandbox.encode()],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
        env=child_environment(),
        cwd=ROOT,
    )


def limited(name: str, most: int) -> str:
    """Return a head that confines its process by another limit than what is usual."""
    return HEAD.replace("confinement.confine(", f"confinement.{name} = {most}\nconfinement.confine(")


@pytest.fixture(scope="module")
def refusal() -> str:
    return probe.find_refusal()


@pytest.fixture(params=[True, False], ids=["namespaces", "limits"])
def sandbox(request: pytest.FixtureRequest, refusal: str) -> Sandbox:
    """Return a sandbox with namespaces, where the system allows them, and one with the limits alone."""
    if request.param and refusal:
        pytest.skip(f"no namespaces here: {refusal}")
    return Sandbox(namespaces=request.param, memory_bytes=1 << 28)


@pytest.fixture
def full(refusal: str) -> Sandbox:
    """Return a sandbox with namespaces."""
    if refusal:
        pytest.skip(f"no namespaces here: {refusal}")
    return Sandbox()


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


def test_processes_whose_parents_have_ended_count() -> None:
    code = """
for _ in range(3):
    if os.fork() == 0:
        if os.fork() == 0:
            held = bytearray(1 << 27)
            time.sleep(300)
        os._exit(0)
    os.wait()
time.sleep(300)
"""
    done = run(code, Sandbox(namespaces=False, memory_bytes=1 << 28))
    assert done.returncode == -signal.SIGKILL
    assert "over the limit of 0.27 GB" in done.stderr


def test_one_process_gets_no_more_memory_than_it_may(sandbox: Sandbox) -> None:
    done = run("bytearray(1 << 30)", sandbox)
    assert "MemoryError" in done.stderr


def test_all_together_get_no_more_memory_than_they_may(sandbox: Sandbox) -> None:
    code = "import mmap; m = mmap.mmap(-1, 3 << 27)\nfor i in range(0, len(m), 4096): m[i] = 1\ntime.sleep(300)"
    done = run(code, sandbox)
    assert done.returncode == -signal.SIGKILL
    assert "over the limit of 0.27 GB" in done.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
@pytest.mark.parametrize(
    ("held", "most", "said"),
    [
        ("mmap.mmap(-1, 3 << 27)\n    for place in range(0, len(held), 4096): held[place] = 1", 1 << 28, "are in use"),
        ("[socket.socketpair() for _ in range(250)]", 1 << 27, "are in use"),
        ("[os.pipe() for _ in range(200)]", 1 << 40, "pipes"),
    ],
)
def test_a_process_whose_first_thread_has_ended_counts(sandbox: Sandbox, held: str, most: int, said: str) -> None:
    code = f"""
import ctypes, mmap, socket, threading
libc = ctypes.CDLL(None)
def hold():
    held = {held}
    time.sleep(300)
if os.fork() == 0:
    libc.prctl(1, signal.SIGKILL)  # when its parent ends
    threading.Thread(target=hold).start()
    libc.syscall(60, 0)  # exit, of this thread alone
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=most))
    assert done.returncode == -signal.SIGKILL, done
    assert f"{said}, over the limit" in done.stderr


def test_what_the_kernel_keeps_for_open_sockets_counts(sandbox: Sandbox) -> None:
    done = run(
        """
import ctypes, resource, socket
assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] <= 512  # as many may be under way, where nobody counts them
for _ in range(6):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when its parent ends
        held = [socket.socketpair() for _ in range(240)]
        time.sleep(300)
time.sleep(300)
""",
        sandbox,
    )
    assert done.returncode == -signal.SIGKILL
    assert "over the limit of 0.27 GB" in done.stderr


def test_what_the_kernel_keeps_for_locks_is_not_there(sandbox: Sandbox, tmp_path: Path) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    (tmp_path / "file").write_text("x")
    code = f"""
import fcntl
first, second = (open({str(tmp_path / "file")!r}) for _ in range(2))
for each in (first, second):
    fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(first, fcntl.LOCK_SH | fcntl.LOCK_NB)
    print(open("/proc/locks").read().count(f" {{os.getpid()}} "))
"""
    done = run(code, replace(sandbox, visible=(str(tmp_path),)))
    assert done.stdout == "0\n0\n", done.stderr


@pytest.mark.skipif(not Path(WATCHES).exists(), reason="this kernel does not say how many events may be awaited")
def test_its_files_await_no_more_events_than_a_user_can_spare(sandbox: Sandbox) -> None:
    most = int(Path(WATCHES).read_text())
    code = """
import ctypes, select
if os.fork() == 0:  # it may have sent them what its parent's are to await
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when its parent ends
    held = [os.dup(0) for _ in range(300)]
else:
    held = [select.epoll() for _ in range(4)]
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=0), limited("WATCHES_SHARE", most // 1000))
    assert done.returncode == -signal.SIGKILL, done
    assert "events on files, over the limit of 100" in done.stderr


@pytest.mark.skipif(not Path(PIPES).exists(), reason="this kernel does not say how many pages pipes may have")
def test_its_pipes_leave_others_of_the_user_large_ones(sandbox: Sandbox) -> None:
    most = int(Path(PIPES).read_text())
    code = """
import ctypes, fcntl
try:
    fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)
except OSError as error:
    print(error.errno, flush=True)
held = [os.pipe() for _ in range(60)]
if os.fork() == 0:  # the same ones count once
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when its parent ends
    time.sleep(300)
time.sleep(1)
print("there", flush=True)
held += [os.pipe() for _ in range(60)]
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=0), limited("PIPES_SHARE", most // 1600))
    assert done.returncode == -signal.SIGKILL, done
    assert done.stdout.split()[-1] == "there"
    assert "pipes, over the limit of 10" in done.stderr
    if seccomp.find_bindings():
        assert done.stdout.split()[0] == str(errno.EPERM)


def test_pipes_with_names_count(tmp_path: Path) -> None:
    for number in range(3):
        os.mkfifo(tmp_path / f"{number}")
    held = [os.open(tmp_path / f"{number}", os.O_RDWR) for number in range(3)]
    before, _ = confinement._count_special([os.getpid()])
    for each in held:
        os.close(each)
    assert confinement._count_special([os.getpid()])[0] == before - 3


def test_each_mapping_counts_for_all_generations_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.getpid()
    monkeypatch.setattr(confinement, "MOST_MAPS", 1000)
    taken = [confinement.weigh({pid: depth}, ()).memory_bytes for depth in (0, 12)]
    assert taken[1] - taken[0] > 0.9 * 1000 * 12 * confinement.LINK_BYTES


def test_pages_of_others_files_stay_in_memory(sandbox: Sandbox, tmp_path: Path) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    file, size = tmp_path / "file", 1 << 22
    code = f"""
import ctypes, mmap
with open({str(file)!r}, "rb") as opened:
    held = mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE)
    sum(held[::4096])
    place = ctypes.addressof(ctypes.c_char.from_buffer(held))
    for advice in (20, 21):
        print(ctypes.CDLL(None).madvise(ctypes.c_void_p(place), ctypes.c_size_t({size}), advice))
"""
    with file.open("wb") as opened:
        opened.write(os.urandom(size))
        os.fsync(opened.fileno())
    file.chmod(0o444)
    before = count_resident(file)
    done = run(code, replace(sandbox, visible=(str(tmp_path),)))
    assert done.stdout == "0\n0\n", done.stderr
    assert count_resident(file) >= before > 0


def count_resident(file: Path) -> int:
    """Return how many pages of a file are in memory."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE) as held:
        pages = (ctypes.c_ubyte * (len(held) // mmap.PAGESIZE))()
        place = ctypes.c_char.from_buffer(held)
        assert (
            ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(place)), ctypes.c_size_t(len(held)), pages) == 0
        )
        del place
        return sum(page & 1 for page in pages)


def test_what_watches_it_is_of_another_session(sandbox: Sandbox) -> None:
    """Linux weighs sessions against one another, by a number in a file of any of their processes."""
    assert run("print(os.getsid(os.getppid()) == os.getppid())", sandbox).stdout == "True\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without other processes")
def test_open_files_under_way_that_hinder_others_are_noticed() -> None:
    code = """
import os, resource, socket
from cuprof.sandbox.confinement import can_send_files
os.setuid(54_321)
resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))
print(can_send_files())
pairs = [socket.socketpair() for _ in range(4)]
for ours, theirs in pairs:
    socket.send_fds(ours, [b"?"], [0] * 200)
print(can_send_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
for ours, theirs in pairs:
    theirs.close()
print(can_send_files())
"""
    command, environment = [sys.executable, "-c", code], child_environment()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.stdout == "True\nFalse 700\nTrue\n", done.stderr


def test_of_a_process_that_has_ended_nothing_counts() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
from cuprof.sandbox import confinement
os.setgid(65534)
os.setuid(65534)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print(confinement._count_files(child, [str(child)]), *confinement._count_special([child]))
"""
    done = subprocess.run([sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.stdout == "0 0 0\n", done.stderr


def test_files_that_a_process_hides_count_as_many_as_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(os, "listdir", refuse)
    assert confinement._count_files(1, ["1"]) == confinement.MOST_FILES


def test_long_chains_of_processes_are_ended(sandbox: Sandbox) -> None:
    code = """
import ctypes
for _ in range(20):
    if os.fork():
        break
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when its parent ends
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=0))
    assert done.returncode == -signal.SIGKILL, done
    assert "generations, over the limit of 16" in done.stderr


@pytest.mark.skipif(not Path("/proc/pagetypeinfo").exists(), reason="this kernel does not have it")
def test_what_others_wait_for_while_root_reads_it_is_empty(full: Sandbox) -> None:
    code = "print(*(os.stat(path).st_rdev for path in ('/proc/pagetypeinfo', '/dev/null')))"
    there, nothing = run(code, full).stdout.split()
    assert there == nothing != "0"


def test_files_without_contents_count_as_memory(full: Sandbox) -> None:
    code = "for number in range(50_000): os.symlink('x', f'/tmp/{number}')\ntime.sleep(300)"
    done = run(code, replace(full, memory_bytes=100_000_000))
    assert done.returncode == -signal.SIGKILL, done
    assert "over the limit of 0.10 GB" in done.stderr


def test_it_gets_no_more_threads_than_the_machine_can_spare(sandbox: Sandbox) -> None:
    code = """
import threading
threading.stack_size(1 << 15)
for number in range(600):
    threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=0), limited("MOST_THREADS", 400))
    assert done.returncode == -signal.SIGKILL, done
    assert "threads, over the limit of 400" in done.stderr


def test_what_it_prints_does_not_fill_the_disk(sandbox: Sandbox, tmp_path: Path) -> None:
    head = limited("MOST_LOG_BYTES", 1 << 20)
    code = 'os.write(2, b"x" * (16 << 20)); time.sleep(300)'
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-B", "-c", head + code, replace(sandbox, memory_bytes=0).encode()]
        done = subprocess.run(command, stderr=log, timeout=LONG_S, check=False, env=child_environment(), cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert b"over the limit of 0.00 GB" in (tmp_path / "log").read_bytes()[-100:]


def test_privileges_cannot_be_had_again(sandbox: Sandbox) -> None:
    done = run("print(open('/proc/self/status').read())", sandbox)
    assert "NoNewPrivs:\t1" in done.stdout
    for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb") if sandbox.namespaces else ("Prm", "Eff"):
        assert f"Cap{kind}:\t{0:016x}" in done.stdout
    if sandbox.namespaces:
        code = "import ctypes; print(ctypes.CDLL(None).mount(None, b'/', None, 0x20 | 0x1000, None))"  # rw again
        assert run(code, sandbox).stdout == "-1\n"


def test_what_no_size_shows_is_bounded_or_not_there(full: Sandbox) -> None:
    files = "os.statvfs('/tmp').f_files, os.statvfs('/dev').f_files"
    code = f"print({files}, os.path.exists('/dev/zero'), os.path.exists('/dev/null'))"
    done = run(code, replace(full, devices=False))
    assert done.stdout.split() == [str(MOST_INODES), "1024", "False", "True"], done.stderr


def test_tables_of_pages_count_as_memory(sandbox: Sandbox) -> None:
    code = """
import mmap
held = mmap.mmap(-1, 1 << 40, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ)
held.madvise(15)
for place in range(0, len(held), 1 << 21):
    held[place]
time.sleep(300)
"""
    done = run(code, sandbox)
    assert "over the limit of 0.27 GB" in done.stderr, done


def test_mappings_without_pages_count_as_memory(sandbox: Sandbox) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
place = libc.mmap(None, ctypes.c_size_t(64000 << 12), 0, 0x4022, -1, ctypes.c_long(0))
for number in range(0, 64000, 2):
    libc.mprotect(ctypes.c_void_p(place + (number << 12)), ctypes.c_size_t(4096), 1)
for _ in range(13):
    if os.fork() == 0:
        libc.prctl(1, signal.SIGKILL)  # when its parent ends
        time.sleep(300)
time.sleep(300)
"""
    done = run(code, sandbox)
    assert "over the limit of 0.27 GB" in done.stderr, done


def test_it_makes_few_timers(sandbox: Sandbox) -> None:
    code = """
import ctypes
libc, timer = ctypes.CDLL(None), ctypes.c_void_p()
event = (ctypes.c_int * 16)(0, 0, signal.SIGUSR1, 0)
while libc.timer_create(1, event, ctypes.byref(timer)):  # while others of this user have as many
    time.sleep(0.05)
print(1 + sum(libc.timer_create(1, event, ctypes.byref(timer)) == 0 for _ in range(5000)))
"""
    done = run(code, sandbox)
    assert 0 < int(done.stdout) <= PENDING, done


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


CALLS = """
import ctypes, errno
library = ctypes.CDLL(None, use_errno=True)
for number in (101, 310, 165):  # ptrace, process_vm_readv, mount
    print(library.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0), errno.errorcode.get(ctypes.get_errno()))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_system_calls_that_no_kernel_needs_are_refused(sandbox: Sandbox) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    assert run(CALLS, sandbox).stdout == "-1 EPERM\n" * 3


INSIDE = """
import ctypes, errno, socket
library = ctypes.CDLL(None, use_errno=True)
def ask(number, *arguments):
    answer = library.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    why = errno.errorcode.get(ctypes.get_errno())
    return "refused" if answer == -1 and why in ("EPERM", "ENOTSUP", "ENOSYS") else f"answered {answer} {why}"
CLONE, CLONE3, MEMFD, SHMGET, VMSPLICE, NEWUSER = 56, 435, 319, 29, 278, 0x10000000
ALLOCATES = (0x40305828, 0x40305829, 0x4030582A, 0x4030582B, 0x40305839)
THREAD = 0x10900  # CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, without CLONE_FILES
print("clone", ask(CLONE, NEWUSER | 17, 0, 0, 0, 0))
print("open files of a thread's own", ask(CLONE, THREAD, 0, 0, 0, 0))
print("open files by close_range", ask(436, 1 << 20, 1 << 20, 2))
print("fallocate", ask(285, 2, 0, 0, 1 << 12))
print("clone3", ask(CLONE3, 0, 0))
print("memfd", ask(MEMFD, 0, 0))
print("shmget", ask(SHMGET, 0, 4096, 0o1600))
print("vmsplice", ask(VMSPLICE, os.pipe()[1], 0, 0, 0))
print("fallocate by ioctl", *{"refused"} | {ask(16, 2, wide | each, 0) for each in ALLOCATES for wide in (0, 1 << 40)})
print("splice", ask(275, 0, 0, 0, 0, 0, 0))
print("tee", ask(276, 0, 0, 0, 0))
print("sendfile", ask(40, 0, 0, 0, 0))
print("tables of locks", ask(157, 78, 9, 0, 0))
print("a core of its own", ask(157, 62, 9, 0, 0))
print("inotify", ask(294, 0))
print("io_setup", ask(206, 1, ctypes.addressof(ctypes.c_long())))
print("Landlock", ask(444, 0, 0, 1))
print("filters of its own", ask(317, 2, 0, 0))
print("filters by prctl", ask(157, 22, 9, 0, 0))
print("signs of changes", ask(72, os.open("/", os.O_RDONLY), 1026, 4))
print("an environment elsewhere", ask(157, 35, 9, 0, 0))
print("quotas", ask(443, 0, 0x800001, 0, 0))
for family in (socket.AF_INET, socket.AF_NETLINK, 40):  # 40 is AF_VSOCK
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print(family, "made")
    except OSError:
        print(family, "refused")
try:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    print("datagrams made")
except OSError:
    print("datagrams refused")
pair = socket.socketpair()
for option in (26, 50, 51, 52):  # SO_ATTACH_FILTER, _BPF, _REUSEPORT_CBPF, _REUSEPORT_EBPF
    try:
        pair[0].setsockopt(socket.SOL_SOCKET, option, b"")
        print("a socket's program attached")
    except OSError as error:
        print("a socket's program", "refused" if error.errno == errno.EPERM else error)
print("pair", len(pair))
print("processes", subprocess.run(["true"]).returncode)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_no_namespace_no_family_and_no_hidden_memory_is_to_be_had(sandbox: Sandbox) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    *refused, pair, processes = run(INSIDE, sandbox).stdout.splitlines()
    assert len(refused) == 30
    assert all(line.endswith("refused") for line in refused), refused
    assert (pair, processes) == ("pair 2", "processes 0")


def test_attributes_of_files_seem_given(sandbox: Sandbox) -> None:
    """Of a file in memory they are memory that nothing counts."""
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    code = """
import ctypes, tempfile
with tempfile.NamedTemporaryFile() as file:
    value = ctypes.create_string_buffer(b"value")
    given = (ctypes.c_uint64 * 2)(ctypes.addressof(value), 5)
    where = ctypes.c_long(-100), file.name.encode(), ctypes.c_long(0)
    ctypes.CDLL(None).syscall(463, *where, b"user.newer", given, ctypes.c_size_t(16))
    os.setxattr(file.name, "user.name", b"value")
    print(os.listxattr(file.name))
"""
    assert run(code, sandbox).stdout == "[]\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_policies_of_memory_seem_done(sandbox: Sandbox) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    code = "import ctypes; print(ctypes.CDLL(None).syscall(237, 0, 4096, 99, 0, 0, 0))"  # mbind, with no mode there is
    assert run(code, replace(sandbox, devices=False)).stdout == "0\n"


def test_huge_pages_count() -> None:
    """They are in no other figure; few machines have any to give."""
    status = b"VmSize:\t  9 kB\nVmRSS:\t  1 kB\nVmPTE:\t  2 kB\nVmSwap:\t  3 kB\nHugetlbPages:\t  2048 kB\n"
    assert confinement.SIZES.findall(status) == [b"9", b"1", b"2", b"3", b"2048"]


def test_pages_on_a_disk_count() -> None:
    status = b"VmSize:\t 9 kB\nVmLck:\t 8 kB\nVmRSS:\t 3 kB\nVmPTE:\t 2 kB\nVmSwap:\t 1 kB\n"
    assert confinement.SIZES.findall(status) == [b"9", b"3", b"2", b"1"]


def test_a_socket_keeps_no_more_than_is_counted(sandbox: Sandbox) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    code = """
import socket
pair = socket.socketpair()
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
    before = pair[0].getsockopt(socket.SOL_SOCKET, option)
    pair[0].setsockopt(socket.SOL_SOCKET, option, 4 * before)
    print(pair[0].getsockopt(socket.SOL_SOCKET, option) - before)
"""
    done = run(code, sandbox)
    assert done.stdout == "0\n0\n", done.stderr


SLOWS = """
import ctypes, threading
other, library = int(sys.argv[2]), ctypes.CDLL(None, use_errno=True)
os.sched_setaffinity(other, {min(os.sched_getaffinity(other))})
os.sched_setscheduler(other, os.SCHED_IDLE, os.sched_param(0))
for which, whom in ((1, other), (2, os.getpgid(other)), (3, 0)):
    library.syscall(ctypes.c_long(251), ctypes.c_long(which), ctypes.c_long(whom), ctypes.c_long(3 << 13))  # ioprio_set
print(len(os.sched_getaffinity(other)), os.sched_getscheduler(other))
print(library.syscall(ctypes.c_long(252), ctypes.c_long(1), ctypes.c_long(other)))  # ioprio_get
one = min(os.sched_getaffinity(0))
mask = ctypes.create_string_buffer((1 << one).to_bytes(128, "little"))
print(library.pthread_setaffinity_np(ctypes.c_ulong(threading.get_ident()), ctypes.c_size_t(128), mask))
os.sched_setaffinity(0, {one})
print(len(os.sched_getaffinity(0)))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_without_namespaces_no_other_process_is_slowed_down() -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    with subprocess.Popen(["sleep", "600"], start_new_session=True, preexec_fn=drop_capabilities) as other:
        before = f"{len(os.sched_getaffinity(other.pid))} {os.sched_getscheduler(other.pid)}\n"
        command = [sys.executable, "-B", "-c", HEAD + SLOWS, Sandbox(namespaces=False).encode(), str(other.pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False, cwd=ROOT)
        other.kill()
    others, ours = before + "0\n", "0\n1\n"
    assert done.stdout == others + ours, done.stderr


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


def test_files_in_folders_of_its_own_count_as_memory(full: Sandbox) -> None:
    code = """
for folder in ("/tmp", "/dev/shm", "/var/tmp"):
    with open(f"{folder}/part", "wb") as file:
        for _ in range(12):
            file.write(bytes(1 << 23))
time.sleep(300)
"""
    done = run(code, replace(full, memory_bytes=1 << 28))
    assert done.returncode == -signal.SIGKILL
    assert "over the limit of 0.27 GB" in done.stderr


def test_a_file_in_such_a_folder_counts_once(full: Sandbox) -> None:
    code = """
print(sum(" /dev/shm " in line for line in open("/proc/self/mountinfo")), flush=True)
with open("/dev/shm/part", "wb") as file:
    for _ in range(36):
        file.write(bytes(1 << 23))
time.sleep(4 * confinement.WATCH_S)
"""
    done = run(code, replace(full, memory_bytes=1 << 29))
    if done.stdout == "1\n":
        pytest.skip("nothing lies below the folder")
    assert (done.returncode, done.stderr) == (0, "")


def test_mounts_are_listed_once(full: Sandbox) -> None:
    listed = """
list_folders = confinement.list_own_folders
def list_and_tell(*given):
    print("listed", file=sys.stderr, flush=True)
    return list_folders(*given)
confinement.list_own_folders = list_and_tell
confinement.confine("""
    done = run("time.sleep(6 * confinement.WATCH_S)", full, HEAD.replace("confinement.confine(", listed.lstrip()))
    assert (done.returncode, done.stderr) == (0, "listed\n")


def test_without_bindings_there_is_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "PACKAGES", ("no_such_bindings",))
    assert seccomp.find_bindings() is None
    seccomp.refuse_calls()  # does nothing, rather than fail


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


def test_a_folder_with_a_databases_name_refuses_no_sandbox(full: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "results.sqlite"
    folder.mkdir()
    done = run("print('inside')", replace(full, visible=(str(tmp_path),), hidden=(str(folder),)))
    assert (done.stdout, done.stderr) == ("inside\n", "")


def test_a_hidden_file_may_have_any_name(full: Sandbox, tmp_path: Path) -> None:
    hidden = tmp_path / "\udcff \n.py"
    hidden.touch()
    shown = replace(full, memory_bytes=1 << 29, visible=(str(tmp_path),), hidden=(str(hidden),))
    done = run("time.sleep(0.6); print('goes on')", shown)
    assert done.stdout == "goes on\n", done.stderr
