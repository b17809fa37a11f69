"""Whole executables: files in and out, printed numbers, exit codes, damage, and the time of their kernels."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cuprof.backends.contract import Draw
from cuprof.backends.program.backend import ProgramBackend, ProgramRunnable, ProgramSession
from cuprof.backends.program.files import FileMemory
from cuprof.backends.program.kernel_clock import KernelRecord, busy_ns, find_cupti, install_clock, own_build
from cuprof.builds import BuildPool
from cuprof.core.errors import LaunchError
from cuprof.core.point import Point
from cuprof.core.records import Measure
from cuprof.families import Array, Execute, File, Program, Signature, Variant

N = 6
SIGNATURE = Signature({"x": Array((N,), "float32")}, {"y": Array((N,), "float32")})
INPUTS = {"x": np.arange(N, dtype=np.float32)}
PYTHON = "#!/usr/bin/env python3\nimport sys\n"
RAW = "import array; x = array.array('f'); x.frombytes(open(sys.argv[1], 'rb').read())\n"
DOUBLES = f"{PYTHON}{RAW}open(sys.argv[2], 'wb').write(array.array('f', [2 * each for each in x]).tobytes())\n"
PRINTS = f"{PYTHON}print('n = 6, y:', *(2 * float(each) for each in open(sys.argv[1])))\n"

Prepare = Callable[..., ProgramRunnable]


def backend_in(folder: Path) -> ProgramBackend:
    """Return the back end of a host without a GPU."""
    backend = ProgramBackend()
    backend.cache, backend.has_gpu = BuildPool(folder), False
    return backend


@pytest.fixture
def session(tmp_path: Path) -> Iterator[ProgramSession]:
    session = ProgramSession(backend_in(tmp_path), SIGNATURE, INPUTS)
    yield session
    session.close()


@pytest.fixture
def prepare(session: ProgramSession) -> Prepare:
    def make(text: str, *steps: Execute) -> ProgramRunnable:
        variant = Variant("v", "program", "kernel", lambda: None, "", source="run.py")
        program = Program(steps or (Execute((File("x"), File("y"))),))
        return session.prepare(variant, Point(n=N), Point(), program, text)

    return make


def test_files_go_in_and_come_out(session: ProgramSession, prepare: Prepare) -> None:
    runnable = prepare(DOUBLES)
    session.run(runnable)
    assert session.fetch(runnable)["y"].tolist() == (2 * INPUTS["x"]).tolist()


def test_each_execution_has_the_inputs_that_are_drawn(session: ProgramSession, prepare: Prepare) -> None:
    other = {"x": INPUTS["x"] + 100}
    session.stock([INPUTS, other])
    assert session.stocked == 2
    runnable = prepare(DOUBLES)
    session.execute(runnable, Draw(1))
    assert session.fetch(runnable)["y"].tolist() == (2 * other["x"]).tolist()
    assert session.damaged_inputs() == ()
    session.execute(runnable, Draw(0))
    assert session.fetch(runnable)["y"].tolist() == (2 * INPUTS["x"]).tolist()


def test_a_file_that_is_worked_on_in_place_holds_its_contents_before_each_execution(tmp_path: Path) -> None:
    first, second = ({**INPUTS, "y": np.full(N, value, np.float32)} for value in (10, 20))
    session = ProgramSession(backend_in(tmp_path), SIGNATURE, first)
    session.stock([first, second])
    assert session.stocked == 2
    adds = "y = array.array('f'); y.frombytes(open(sys.argv[2], 'rb').read())\n"
    adds += "open(sys.argv[2], 'wb').write(array.array('f', map(sum, zip(x, y))).tobytes())\n"
    variant = Variant("v", "program", "kernel", lambda: None, "", source="run.py")
    steps = (Execute((File("x"), File("y"))),)
    runnable = session.prepare(variant, Point(n=N), Point(), Program(steps), PYTHON + RAW + adds)
    for number, given in ((1, second), (1, second), (0, first)):
        session.execute(runnable, Draw(number))
        assert session.fetch(runnable)["y"].tolist() == (given["x"] + given["y"]).tolist()
    assert session.damaged_inputs() == ()
    session.close()


def test_the_last_numbers_printed_are_the_result(session: ProgramSession, prepare: Prepare) -> None:
    runnable = prepare(PRINTS, Execute((File("x", "text"),), stdout="y"))
    session.run(runnable)
    assert session.fetch(runnable)["y"].tolist() == (2 * INPUTS["x"]).tolist()


def test_numpy_files(session: ProgramSession, prepare: Prepare) -> None:
    text = f"{PYTHON}import shutil; shutil.copy(sys.argv[1], sys.argv[2])\n"
    runnable = prepare(text, Execute((File("x", "npy"), File("y", "npy"))))
    session.run(runnable)
    assert np.array_equal(session.fetch(runnable)["y"], INPUTS["x"])


NPY = f"#!{sys.executable}\nimport sys\nimport numpy as np, os; place = sys.argv[2]\n"
HEADED = (
    f"{NPY}def write(head):\n"
    " open(place, 'wb').write(b'\\x93NUMPY\\x01\\x00' + len(head).to_bytes(2, 'little') + head.encode())\n"
)
NO_FILE, NO_ARRAY = "v left no file of output y", "the file of output y something that is not a NumPy file"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{NPY}os.remove(place); os.makedirs(place + '/within')\n", NO_FILE),
        (f"{NPY}os.remove(place); os.symlink('/dev/zero', place)\n", NO_FILE),
        (f"{NPY}np.save('z.npy', np.zeros(6, 'f4')); os.remove(place); os.symlink('z.npy', place)\n", NO_FILE),
        (f"{NPY}os.remove(place); os.symlink(place, place)\n", NO_FILE),
        (f"{NPY}os.remove(place); os.mkfifo(place)\n", NO_FILE),
        (f"{NPY}open(place, 'wb')\n", NO_ARRAY),
        (f"{NPY}open(place, 'wb').write(b'PK' + bytes([3, 4, 1, 1]))\n", NO_ARRAY),
        (f"{NPY}np.savez(open(place, 'wb'), y=np.zeros(6, 'f4'))\n", NO_ARRAY),
        (f"{NPY}np.save(place, np.zeros(6, 'f4')); os.truncate(place, os.path.getsize(place) - 1)\n", NO_ARRAY),
        (f"{HEADED}write('(' * 5000)\n", NO_ARRAY),
        (f"{HEADED}write(repr(dict(descr='<f4', fortran_order=False, shape=(10**15,))))\n", NO_ARRAY),
        (f"{HEADED}write(repr(dict(descr='<f4', fortran_order=False, shape=(10**22,))))\n", NO_ARRAY),
        (f"{HEADED}write(repr(dict(descr=[('a', '<f4', -1)], fortran_order=False, shape=(6,))))\n", NO_ARRAY),
        (f"{NPY}np.save(place, np.zeros(6))\n", r"float64 of shape \(6,\), not float32 of \(6,\)"),
    ],
)
def test_whatever_is_left_in_place_of_a_numpy_file_costs_its_own_trial_alone(
    session: ProgramSession, prepare: Prepare, text: str, said: str
) -> None:
    session.stock([INPUTS])
    step = Execute((File("x", "npy"), File("y", "npy")))
    odd, right = prepare(text, step), prepare(f"{NPY}np.save(place, np.load(sys.argv[1]) * 2)\n", step)
    session.execute(odd, Draw())
    with pytest.raises(LaunchError, match=said):
        session.fetch(odd)
    session.execute(right, Draw())
    assert session.fetch(right)["y"].tolist() == (2 * INPUTS["x"]).tolist()


@pytest.mark.parametrize("format", ["raw", "text"])
def test_an_endless_file_is_not_read_to_its_end(session: ProgramSession, prepare: Prepare, format: str) -> None:
    text = f"{PYTHON}open(sys.argv[1], 'wb').truncate(1 << 40)\n"
    runnable = prepare(text, Execute((File("y", format),)))
    session.run(runnable)
    with pytest.raises(LaunchError, match=r"1099511627776 bytes, not 24|0 numbers, and 6 are expected"):
        session.fetch(runnable)


def test_a_numpy_file_in_fortrans_order_is_read_as_it_is_meant(tmp_path: Path) -> None:
    memory, array = FileMemory(None), Array((2, 3), "float32")
    content = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(memory.path(File("y", "npy")), np.asfortranarray(content))
    assert memory.read_file(File("y", "npy"), array, "v").tolist() == content.tolist()
    memory.free()


def test_what_is_not_written_is_not_taken_from_the_execution_before(session: ProgramSession, prepare: Prepare) -> None:
    session.run(prepare(DOUBLES))
    idle = prepare(f"{PYTHON}")
    session.stock([INPUTS])
    session.execute(idle, Draw(0, 0xFF))
    assert np.isnan(session.fetch(idle)["y"]).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{PYTHON}sys.exit('no such thing')\n", r"v \S*x\.bin \S*y\.bin ended with 1: no such thing"),
        (f"{PYTHON}import os; os.kill(os.getpid(), 11)\n", "ended by signal 11"),
        ("no program", "v cannot be started"),
        (f"{PYTHON}open(sys.argv[2], 'wb').write(b'1234')\n", "4 bytes, not 24"),
        (f"{PYTHON}import os; os.remove(sys.argv[2])\n", "left no file of output y"),
    ],
)
def test_what_goes_wrong_is_a_launch_error(session: ProgramSession, prepare: Prepare, text: str, said: str) -> None:
    session.stock([INPUTS])
    runnable = prepare(text)

    def execute_and_fetch() -> None:
        session.execute(runnable, Draw())
        session.fetch(runnable)

    with pytest.raises(LaunchError, match=said):
        execute_and_fetch()


def test_too_few_numbers_are_told(session: ProgramSession, prepare: Prepare) -> None:
    runnable = prepare(f"{PYTHON}print(1, 2)\n", Execute((), stdout="y"))
    session.run(runnable)
    with pytest.raises(LaunchError, match="v printed 2 numbers, and 6 are expected"):
        session.fetch(runnable)


def test_a_program_that_writes_its_input_is_found_and_its_file_made_anew(
    session: ProgramSession, prepare: Prepare
) -> None:
    session.stock([INPUTS])
    session.execute(prepare(f"{PYTHON}open(sys.argv[1], 'wb').write(bytes(24))\n"), Draw())
    assert session.damaged_inputs() == ("x",)
    session.restore_inputs()
    runnable = prepare(DOUBLES)
    session.execute(runnable, Draw())
    assert session.damaged_inputs() == ()
    assert session.fetch(runnable)["y"].tolist() == (2 * INPUTS["x"]).tolist()


def test_arguments_and_environment_arrive(session: ProgramSession, prepare: Prepare) -> None:
    text = f"{PYTHON}import os; print(sys.argv[1:], os.environ['MODE'], *range(6))\n"
    runnable = prepare(text, Execute(("--n", N, 0.5), stdout="y", environment={"MODE": "fast"}))
    session.run(runnable)
    assert runnable.printed == ["['--n', '6', '0.5'] fast 0 1 2 3 4 5\n"]


def test_without_a_gpu_both_measures_are_wall_time(session: ProgramSession, prepare: Prepare) -> None:
    runnable = prepare(f"{PYTHON}import time; time.sleep(0.05)\n")
    for measure in (Measure.COLD, Measure.TOTAL):
        started = time.perf_counter_ns()
        duration_ns = session.begin(runnable, measure)().duration_ns
        assert 50e6 < duration_ns < time.perf_counter_ns() - started


def test_busy_time_counts_overlapping_kernels_once() -> None:
    def ran(start: int, end: int) -> KernelRecord:
        return KernelRecord(start, end, 16, 0, 0)

    assert busy_ns([]) == 0
    assert busy_ns([ran(100, 200), ran(150, 300), ran(160, 170), ran(1000, 1010)]) == 210


def test_the_libraries_that_are_loaded_into_programs_compile(tmp_path: Path) -> None:
    try:
        find_cupti()
    except Exception as error:
        pytest.skip(str(error))
    variables = install_clock(BuildPool(tmp_path / "cache"), tmp_path)
    assert Path(variables["CUDA_INJECTION64_PATH"]).read_bytes().startswith(b"\x7fELF")
    assert own_build("mark.c", "gcc").run().image.startswith(b"\x7fELF")
