"""The table of docs/judging.md: what holds for root and others, with and without namespaces and libseccomp."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuprof.core.processes import child_environment
from cuprof.sandbox import probe, seccomp
from cuprof.sandbox.landlock import find_version
from cuprof.sandbox.settings import Sandbox
from tests.living import LONG_S

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "judging.md"
COLUMNS = ((True, True), (True, False), (False, True), (False, False))
"""Namespaces, filter: the columns of the table."""
WORDS = {"yes": True, "no": False}
TRIES = """
import ctypes, fcntl, mmap, os, resource, signal, socket, stat, struct, sys
folder, parent, port = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def clone():
    child = libc.syscall(ctypes.c_long(56), ctypes.c_long(0x10000000 | 17), 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError
def connect(family, address):
    with socket.socket(family) as one:
        one.settimeout(60)
        one.connect(address)
def read(path):
    if not open(path).read():
        raise OSError
def write(path):
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    if not stat.S_ISFIFO(os.fstat(handle).st_mode):
        raise OSError
def disturb():
    try:
        os.kill(parent, 0)
    except OSError:
        call(101, 0x4206, parent, 0, 0)
def change(path):
    os.chmod(path, 0o640)
    if stat.S_IMODE(os.stat(path).st_mode) != 0o640:
        raise OSError
def hide():
    try:
        mmap.mmap(-1, 4096)
    except OSError:
        os.close(os.memfd_create("x"))
def keep(path):
    try:
        open(path, "w").close()
    except OSError:
        pass
def is_locked(file):
    wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    return struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, wanted))[0] != fcntl.F_UNLCK
def lock(*paths):
    for path in paths:
        with open(path, "rb") as file:
            if file.read(6):
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                child = os.fork()
                if child == 0:
                    os._exit(is_locked(file))
                if os.waitpid(child, 0)[1]:
                    return
    raise OSError
def delay(path):
    try:
        lock(path)
    except OSError:
        with open(path, "rb") as file:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
def reach():
    try:
        connect(socket.AF_UNIX, f"{folder}/socket")
    except OSError:
        send()
def send():
    try:
        own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:
        own, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    with own:
        own.sendto(b"x", f"{folder}/datagrams")
def write_any(*paths):
    for path in paths:
        try:
            return write(path)
        except OSError as error:
            refused = error
    raise refused


TRIES = {
    "change files of others": lambda: open(f"{folder}/writable", "a").close(),
    "change their modes, owners and dates": lambda: change(f"{folder}/owned"),
    "read other people's files in /tmp": lambda: read(f"{folder}/../secret"),
    "read other candidates' files": lambda: read(f"{folder}/other.py"),
    "turn the kernel's switches (`/proc/sys`)": lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)),
    "signal or trace other processes": disturb,
    "reach this machine by TCP": lambda: connect(socket.AF_INET, ("127.0.0.1", port)),
    "reach UNIX sockets beside it or the family": reach,
    "write into pipes of others": lambda: write_any(f"{folder}/pipe", f"{sys.argv[6]}/pipe"),
    "lock databases beside it or the family": lambda: lock(f"{folder}/results.db", f"{folder}/results.sqlite"),
    "limit or slow down other processes": lambda: resource.prlimit(parent, resource.RLIMIT_CORE),
    "make others wait for visible files (locks, leases)": lambda: delay(f"{folder}/leased"),
    "make user namespaces": clone,
    "hide memory in nameless files": hide,
    "speak to the hypervisor (AF_VSOCK)": lambda: socket.socket(40, socket.SOCK_STREAM).close(),
    "keep files for the next process": lambda: [keep(f"{place}/shown-{parent}") for place in ("/var/tmp", "/dev/shm")],
}
for name, action in TRIES.items():
    try:
        action()
        print(name, "open", sep="|")
    except (OSError, AttributeError):
        print(name, "held", sep="|")
"""
HEAD = """
import sys
from cuprof.sandbox import seccomp
if sys.argv[5] == "0":
    seccomp.PACKAGES = ()
from cuprof.sandbox.confinement import confine
from cuprof.sandbox.settings import Sandbox
confine(Sandbox.decode(sys.argv[1]))
"""


def read_table() -> dict[str, tuple[bool, ...]]:
    """Return what cannot be done, by row, as the document says."""
    rows = [line.strip("| \n").split(" | ") for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    return {row[0]: tuple(WORDS[cell] for cell in row[1:]) for row in rows if set(row[1:]) <= WORDS.keys()}


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a folder in /tmp that every user reaches, unlike pytest's own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Return a folder with a pipe that is neither hidden nor one of the candidate's."""
    with tempfile.TemporaryDirectory(dir=ROOT) as name:
        Path(name).chmod(0o755)
        os.mkfifo(Path(name, "pipe"))
        Path(name, "pipe").chmod(0o666)
        yield Path(name)


def copy_bindings(folder: Path) -> Path:
    """Copy the bindings to where another user's Python finds them, and return the folder."""
    source = Path(str(seccomp.find_bindings().__file__))
    if source.suffix != ".py":
        pytest.skip("another user's Python may lack the bindings")
    folder.mkdir()
    shutil.copyfile(source, folder / source.name)
    return folder


@pytest.mark.parametrize("column", range(len(COLUMNS)))
@pytest.mark.parametrize("user", [None, 65534], ids=["this user", "nobody"])
def test_it_holds_as_the_document_says(place: Path, elsewhere: Path, user: int | None, column: int) -> None:
    namespaces, is_filtered = COLUMNS[column]
    if namespaces and (refusal := probe.find_refusal()):
        pytest.skip(f"no namespaces here: {refusal}")
    if is_filtered and seccomp.find_bindings() is None:
        pytest.skip("libseccomp's bindings are not installed")
    if find_version() < 6:
        pytest.skip("this kernel has no Landlock of version 6, which the table assumes")
    python, environment = sys.executable, child_environment()
    if user is not None:
        found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        if os.geteuid() != 0 or found is None:
            pytest.skip("only root becomes another user, who needs a Python that all may read")
        python = found
        if is_filtered:
            environment["PYTHONPATH"] += os.pathsep + str(copy_bindings(place / "bindings"))
    folder, home = place / "shown", place / "home"
    for each in (folder, home):
        each.mkdir()
        each.chmod(0o777)
    (folder / "writable").touch()
    (folder / "writable").chmod(0o666)
    for name in ("leased", "owned"):
        (folder / name).write_text("leased")
        if user is not None:
            os.chown(folder / name, user, user)
    (place / "secret").write_text("secret")
    for name in ("results.db", "results.sqlite"):
        (folder / name).write_text("SQLite format 3")
    (folder / "other.py").write_text("other")
    os.mkfifo(folder / "pipe", 0o666)
    (folder / "pipe").chmod(0o666)
    readers = [os.open(each / "pipe", os.O_RDONLY | os.O_NONBLOCK) for each in (folder, elsewhere)]
    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    doors = {"socket": socket.socket(socket.AF_UNIX, stream), "datagrams": socket.socket(socket.AF_UNIX, datagram)}
    with socket.socket() as network, doors["socket"], doors["datagrams"]:
        network.bind(("127.0.0.1", 0))
        network.listen()
        os.chdir(folder)
        for name, door in doors.items():
            door.bind(name)
            Path(name).chmod(0o777)
        os.chdir(ROOT)
        doors["socket"].listen()
        hidden = (str(folder / "other.py"),)
        sandbox = Sandbox(namespaces, devices=False, visible=(str(folder),), hidden=hidden, home=str(home))
        words = (sandbox.encode(), str(folder), str(os.getpid()), str(network.getsockname()[1]))
        done = subprocess.run(
            [python, "-B", "-c", HEAD + TRIES, *words, str(int(is_filtered)), str(elsewhere)],
            capture_output=True, text=True, timeout=LONG_S, check=False, env=environment, cwd=ROOT,
            **({"user": user, "group": user, "extra_groups": ()} if user is not None else {}),
        )  # fmt: skip
    for reader in readers:
        os.close(reader)
    if user is not None and "ModuleNotFoundError" in done.stderr:
        pytest.skip("an ordinary user has no Python that can read this checkout")
    held = {name: state == "held" for name, _, state in (line.partition("|") for line in done.stdout.splitlines())}
    assert held, done.stderr
    kept = [Path(f"{folder}/shown-{os.getpid()}") for folder in ("/var/tmp", "/dev/shm")]
    held["keep files for the next process"] = not any(each.exists() for each in kept)
    for each in kept:
        each.unlink(missing_ok=True)
    if user is not None:  # no process of root's is another user's to signal, trace or limit, whatever the sandbox
        names = ("signal or trace other processes", "limit or slow down other processes")
        held |= {name: read_table()[name][column] for name in names}
    assert held == {name: cells[column] for name, cells in read_table().items()}
