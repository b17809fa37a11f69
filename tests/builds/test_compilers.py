"""The processes that compile: what becomes of builds that crash, hang, print or fork, and what is left at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cuprof.builds import BuildPool
from cuprof.builds.compilers import Compilers, Origin
from cuprof.core.errors import BuildError, ImpossibleError, MissingDependencyError
from tests.builds.fakes import Fake, load
from tests.living import LONG_S, wait_for_end

PARENT = "import os, psutil; image = psutil.Process(os.getppid()).ppid()"
"""The origin: the parent of the one that watches."""
OWN = "import os; image = os.getpid()"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def compilers() -> Iterator[Compilers]:
    """Return processes of one test's own, which may end them or look at their origins."""
    made = Compilers()
    yield made
    made.end()


@pytest.fixture(scope="module")
def shared() -> Iterator[Compilers]:
    """Return processes for tests whose builds cost nobody but themselves."""
    made = Compilers()
    yield made
    made.end()


def ask(compilers: Compilers, code: str, **given: object) -> str:
    return compilers.run(Fake(code, **given)).image.decode()  # type: ignore[arg-type]


def test_builds_that_run_code_have_processes_of_their_own_and_one_origin(shared: Compilers) -> None:
    assert ask(shared, PARENT) == ask(shared, PARENT)
    assert ask(shared, OWN) != ask(shared, OWN)
    ask(shared, "import sys; sys.modules['planted'] = sys")
    assert ask(shared, "import sys; image = 'planted' in sys.modules") == "False"


def test_builds_that_run_no_code_of_the_users_share_a_process_while_it_lives(compilers: Compilers) -> None:
    first = ask(compilers, OWN, is_alone=False)
    with pytest.raises(BuildError, match="division"):
        ask(compilers, "1 / 0", is_alone=False)
    assert ask(compilers, OWN, is_alone=False) == first
    os.kill(int(first), signal.SIGKILL)
    wait_for_end(int(first))
    (origin,) = compilers._origins.values()
    assert origin._idle[0][0].poll(LONG_S)  # until its end is told
    assert ask(compilers, OWN, is_alone=False) != first


def test_a_compiler_keeps_no_cache_beside_ours(shared: Compilers) -> None:
    assert ask(shared, "import os; image = os.environ['CUDA_CACHE_DISABLE']") == "1"


def test_what_is_loaded_first_is_there_in_every_build(shared: Compilers) -> None:
    planted = (load, "import sys; sys.planted = 'by the origin'")
    assert ask(shared, "import sys; image = sys.planted", preload=planted) == "by the origin"
    assert ask(shared, "import sys; image = hasattr(sys, 'planted')") == "False"


def test_builds_run_side_by_side(shared: Compilers, tmp_path: Path) -> None:
    meet = f"""
import os, time
from pathlib import Path
place, give_up = Path({str(tmp_path)!r}), time.monotonic() + {LONG_S}
(place / str(os.getpid())).touch()
while (image := len(list(place.iterdir()))) < 4 and time.monotonic() < give_up:
    time.sleep(0.01)
"""
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: ask(shared, meet), range(4))) == ["4"] * 4


@pytest.mark.parametrize(
    ("raises", "kind", "message"),
    [
        ("raise BuildError('k.cu: no', 'the log')", BuildError, "k.cu: no"),
        ("raise ImpossibleError('too many registers')", ImpossibleError, "too many registers"),
        ("raise MissingDependencyError('nvcc', 'apt install it')", MissingDependencyError, "nvcc is not available"),
        ("1 / 0", BuildError, "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", BuildError, "SystemExit: 3"),
    ],
)
def test_what_a_build_raises_is_raised_here(
    shared: Compilers, raises: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        ask(shared, f"from cuprof.core.errors import *\n{raises}")
    assert ask(shared, "image = b'next'") == "next"


@pytest.mark.parametrize(
    ("ends", "how"),
    [("os._exit(3)", "exit code 3"), ("os.kill(os.getpid(), 11)", "Segmentation fault"), ("os.abort()", "Aborted")],
)
def test_a_build_that_ends_its_process_costs_itself_and_what_it_started(
    shared: Compilers, tmp_path: Path, ends: str, how: str
) -> None:
    stray = tmp_path / "stray"
    code = f"""
import os, time
if not (child := os.fork()):
    time.sleep(600)
open({str(stray)!r}, "w").write(str(child))
print("the last line", flush=True)
{ends}
"""
    with pytest.raises(BuildError, match=rf"compiler of fake ended early \({how}\); it printed: the last line"):
        ask(shared, code)
    wait_for_end(int(stray.read_text()))
    assert ask(shared, "image = b'next'") == "next"


def test_a_build_that_takes_too_long_is_stopped(shared: Compilers, tmp_path: Path) -> None:
    code = f"""
import os, time
from pathlib import Path
Path({str(tmp_path / "part")!r}).write_text(str(os.getpid()))
Path({str(tmp_path / "part")!r}).rename({str(tmp_path / "pid")!r})
time.sleep(600)
"""
    for limit_s in (1, 5, 30, 100):  # on a busy machine it has not begun within a second
        with pytest.raises(BuildError, match=rf"took longer than {limit_s} s and was stopped"):
            shared.run(Fake(code), limit_s=float(limit_s))
        if (tmp_path / "pid").exists():
            break
    wait_for_end(int((tmp_path / "pid").read_text()))


def test_a_pool_stops_a_build_at_its_own_limit(tmp_path: Path) -> None:
    begun = BuildPool(tmp_path).start(Fake("import time; time.sleep(600)"), 1.0)
    with pytest.raises(BuildError, match=r"took longer than 1 s and was stopped"):
        begun.result(LONG_S)


def test_what_a_build_prints_is_no_answer(shared: Compilers) -> None:
    assert ask(shared, "import os; print('{}'); os.write(1, b'{}\\n'); image = b'right'") == "right"


def test_a_copy_that_a_build_makes_of_its_process_answers_nothing(shared: Compilers) -> None:
    code = "import os\nif child := os.fork(): os.waitpid(child, 0)\nimage = b'once'"
    assert ask(shared, code) == "once"


def test_an_origin_that_has_ended_is_replaced(compilers: Compilers) -> None:
    first = int(ask(compilers, PARENT))
    os.kill(first, signal.SIGKILL)
    wait_for_end(first)
    assert int(ask(compilers, PARENT)) != first


def test_a_compiler_that_cannot_be_loaded_says_why(compilers: Compilers) -> None:
    with pytest.raises(BuildError, match=r"ended early|no compiler process"):
        ask(compilers, "", preload=(load, "raise RuntimeError('there is no compiler')"))
    assert ask(compilers, "image = b'next'") == "next"


def test_headers_are_compiled_ahead_once_two_builds_share_them(compilers: Compilers) -> None:
    headers = (load, "import sys; sys.headers = True")
    build = Fake("import sys; image = hasattr(sys, 'headers')", headers=headers)
    assert compilers.run(build).image == b"False"
    give_up = time.monotonic() + LONG_S
    while compilers.run(build).image != b"True":
        assert time.monotonic() < give_up


def load_after(go: Path, code: str) -> tuple[Callable[[str], None], str]:
    """Return what to load first: a code that is run once there is a file."""
    return load, f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n{code}"


@pytest.mark.parametrize(("took_s", "found"), [(0.0, b"False"), (600.0, b"True")])
def test_headers_are_waited_for_as_long_as_a_build_without_them_took(
    compilers: Compilers, tmp_path: Path, took_s: float, found: bytes
) -> None:
    headers = load_after(tmp_path / "go", "import sys; sys.headers = True")
    compilers._took[headers] = took_s
    if took_s:
        threading.Timer(0.5, (tmp_path / "go").touch).start()
    assert compilers.run(Fake("import sys; image = hasattr(sys, 'headers')", headers=headers)).image == found
    assert (compilers._took[headers] == took_s) == (found == b"True"), "a build that did not wait says how long it took"
    (tmp_path / "go").touch()


def test_headers_are_compiled_beside_the_first_build(compilers: Compilers) -> None:
    compilers.run(Fake("", headers=(load, "pass")))
    assert len(compilers._origins) == 2


def test_headers_that_cannot_be_compiled_ahead_cost_nothing_else(compilers: Compilers) -> None:
    build = Fake("image = b'right'", headers=(load, "raise RuntimeError"))
    assert [compilers.run(build).image for _ in range(4)] == [b"right"] * 4


def test_nothing_is_left_at_the_end(compilers: Compilers) -> None:
    folder = Path(ask(compilers, "import tempfile; image = tempfile.mkdtemp()"))
    assert not folder.exists()
    origin = int(ask(compilers, PARENT))
    compilers.end()
    wait_for_end(origin)
    assert not folder.parent.parent.exists()


OWNER = '''
import sys, threading, time
from cuprof.builds.compilers import Compilers
from tests.builds.fakes import Fake
code = f"told = {sys.argv[1]!r}\\n" + """
import os, time
import psutil
parent = psutil.Process(os.getppid())
open(told, 'w').write(f'{os.getpid()} {parent.pid} {parent.ppid()} ')
time.sleep(600)
"""
Compilers().run(Fake(code))
'''


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_their_owner(tmp_path: Path, ending: signal.Signals) -> None:
    told = tmp_path / "told"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(told)], env=environment)
    give_up = time.monotonic() + LONG_S
    while not told.exists() or not told.read_text().endswith(" "):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    owner.send_signal(ending)
    owner.wait()
    for process in map(int, told.read_text().split()):
        wait_for_end(process)


def test_no_process_is_started_where_there_can_be_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(BuildError, match=r"no compiler process can be started: .*No such file"):
        Compilers().run(Fake(""))


def test_an_order_reaches_an_origin_that_still_loads(tmp_path: Path) -> None:
    origin = Origin(load_after(tmp_path / "go", ""), tmp_path)
    assert not origin.is_loaded()
    threading.Timer(0.5, (tmp_path / "go").touch).start()
    assert origin.run(Fake("image = b'late'")).image == b"late"
    assert origin.is_loaded()
    origin.end()
