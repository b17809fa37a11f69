"""Triton kernels: what decides a build, and, where Triton is installed, what its processes answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest

from cuprof.backends.cuda.triton import TritonBuild, _Compiler, _Compilers
from cuprof.backends.cuda.triton_compiler import Compiler, explain
from cuprof.core.errors import BuildError, FamilyError
from cuprof.core.point import Point
from cuprof.families import Array, Launch, Texture
from cuprof.families.configurations import (
    _ask,
    list_configurations,
    list_tunables,
    read_configurations,
    require_listed,
)
from cuprof.families.requirements import is_installed
from cuprof.families.sources import read_variant_source

FILE = Path(__file__).parents[2] / "data" / "families" / "forms" / "scale_triton.py"
BUFFERS = {"x": Array((1000,), "float32"), "y": Array((1000,), "float32"), "h": Array((8,), "float16")}
CONSTANTS = {"BLOCK": 256, "num_warps": 4}
LISTED = [
    {"BLOCK": 64, "num_warps": 2, "num_ctas": 1},
    {"BLOCK": 64, "num_warps": 4, "num_ctas": 1},
    {"BLOCK": 128, "num_warps": 4, "num_ctas": 1},
]
needs_triton = pytest.mark.skipif(not is_installed("triton"), reason="Triton is not installed")


def build(*args: object, **constants: object) -> TritonBuild:
    launch = Launch("scale", (4,), args=args or ("x", "y", 1000))  # type: ignore[arg-type]
    return TritonBuild.of(FILE.read_text(), launch, BUFFERS, {**CONSTANTS, **constants}, "sm_90")


def test_arguments_are_told_apart_as_triton_does() -> None:
    found = build("x", "h", 1, 32, 33, 0.5, np.int64(48), np.uint8(1), True)
    assert found.arguments == (
        ("*fp32", True), ("*fp16", True), ("", False), ("i32", True), ("i32", False), ("fp32", False), ("i64", True),
        ("", False), ("i1", False),
    )  # fmt: skip
    assert found.values == (None, None, 1, 32, 33, 0.5, 48, 1, True)


@pytest.mark.parametrize("argument", [Texture("x"), np.complex64(1)])
def test_what_triton_does_not_take_is_refused(argument: object) -> None:
    with pytest.raises(BuildError, match="Triton"):
        build("x", argument)


def test_constants_are_plain_values() -> None:
    assert build(BLOCK=np.int64(64)).content() == build(BLOCK=64).content()
    with pytest.raises(BuildError, match=r"BLOCK is \[64\]; what"):
        build(BLOCK=[64])


def test_everything_that_is_compiled_decides_the_content() -> None:
    others = [
        build("x", "y", 1008), build("x", "h", 1000), build(BLOCK=512), build(num_stages=3),
        replace(build(), text=FILE.read_text() + " "), replace(build(), arch="sm_80"), replace(build(), kernel="other"),
    ]  # fmt: skip
    assert len({str(each.content()) for each in (build(), *others)}) == 1 + len(others)
    assert build("x", "y", 1003).content() != build().content()  # heuristics may ask for the value


def test_a_list_of_configurations_is_axes_and_a_rule() -> None:
    assert list_tunables(LISTED) == {"BLOCK": (64, 128), "num_warps": (2, 4)}
    explain = require_listed(LISTED)
    assert explain(Point(BLOCK=128, num_warps=4)) is None
    assert explain(Point(num_warps=4, BLOCK=128)) is None
    said = explain(Point(BLOCK=128, num_warps=2))
    assert said == "not among the 3 configurations of @triton.autotune"


def test_clusters_that_differ_are_an_axis() -> None:
    assert list_tunables([*LISTED, {**LISTED[0], "num_ctas": 2}])["num_ctas"] == (1, 2)


@needs_triton
def test_configurations_are_read_in_another_process_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = read_configurations(FILE, "scale")
    assert [(each["BLOCK"], each["num_warps"]) for each in found] == [(256, 2), (256, 4), (1024, 2), (1024, 4)]
    monkeypatch.setattr("cuprof.families.configurations._ask", lambda file, kernel: pytest.fail("asked again"))
    assert read_configurations(FILE, "scale") == found


@needs_triton
@pytest.mark.parametrize(
    "line",
    [
        "print('configurations: []'); print('more', end='')",
        "import os; os.write(1, bytes([255, 10]))",
    ],
)
def test_what_a_file_prints_hides_no_configurations(tmp_path: Path, line: str) -> None:
    (tmp_path / "kernels.py").write_text(f"{line}\n{FILE.read_text()}")
    assert len(_ask(tmp_path / "kernels.py", "scale")) == 4


@needs_triton
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import os; os._exit(3)", "exit code 3$"),
        ("input()", "EOFError: [^'\"]*$"),
        ("raise SystemExit('no')", "read: no$"),
    ],
)
def test_why_configurations_cannot_be_read_is_one_line(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "kernels.py").write_text(f"{line}\n{FILE.read_text()}")
    with pytest.raises(FamilyError, match=said):
        _ask(tmp_path / "kernels.py", "scale")


@pytest.mark.parametrize(
    ("hook", "value", "said"),
    [(print, 64, "pre_hook, which is not run here"), (None, [64], r"has BLOCK=\[64\]; numbers")],
)
def test_a_configuration_that_would_mean_something_else_is_refused(hook: object, value: object, said: str) -> None:
    config = SimpleNamespace(pre_hook=hook, all_kwargs=lambda: {"BLOCK": value})
    with pytest.raises(FamilyError, match=said):
        list_configurations([SimpleNamespace(configs=[config])])


@needs_triton
@pytest.mark.parametrize(("kernel", "said"), [("scales", "there are scale"), ("tl", "there are scale")])
def test_a_kernel_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, said: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FamilyError, match=said):
        read_configurations(FILE, kernel)


@needs_triton
def test_builds_are_answered_and_a_failing_one_costs_itself_alone() -> None:
    built = build().run()
    assert built.image.startswith(b"\x7fELF")
    assert built.launch["threads"] == 128
    assert built.launch["kept"] == 0b111
    for wrong, said in (
        (build(BLOCK=255), "power of 2"),
        (build(num_wraps=4), "num_wraps"),
        (build("x"), "none for y"),
    ):
        with pytest.raises(BuildError, match=said):
            wrong.run()
    assert build("x", "y", 1).run().launch["kept"] == 0b011
    assert build().run() == built


@needs_triton
def test_a_compiler_that_ends_is_replaced() -> None:
    text = FILE.read_text().replace("import triton\n", "import os\nimport triton\nos._exit(3)\n", 1)
    with pytest.raises(BuildError, match=r"ended \(exit code 3\) while it compiled scale"):
        replace(build(), text=text).run()
    assert build().run().symbols == {"scale": "scale"}


@pytest.fixture
def compilers() -> Iterator[_Compilers]:
    made = _Compilers()
    yield made
    made.end()


@needs_triton
def test_compilers_are_forked_by_one_process_and_by_a_new_one_where_it_has_ended(compilers: _Compilers) -> None:
    first, second = compilers.take(TELLS), compilers.take(TELLS)
    assert tell(first) == tell(second) == str(pid_of(compilers))
    compilers.give_back(first)
    assert compilers.take(TELLS) is first
    os.kill(pid_of(compilers), signal.SIGKILL)
    os.waitid(os.P_PID, pid_of(compilers), os.WEXITED | os.WNOWAIT)
    third = compilers.take(TELLS)
    assert tell(third) == str(pid_of(compilers))
    assert [each.end() for each in (first, second, third)] == [""] * 3


@needs_triton
def test_a_compiler_compiles_one_text_alone(compilers: _Compilers, tmp_path: Path) -> None:
    def read(name: str) -> str:
        (tmp_path / name).mkdir()
        (tmp_path / name / "beside.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "kernels.py").write_text("from .beside import NAME\nraise RuntimeError(NAME)\n")
        return read_variant_source(tmp_path / name / "kernels.py", tmp_path / name)

    for name in ("one", "other", "third"):
        compiler = compilers.take(read(name))
        assert tell(compiler) == name
        compilers.give_back(compiler)
    assert len(compilers._idle) == 3


@needs_triton
def test_one_that_ended_or_speaks_unasked_is_asked_no_more(compilers: _Compilers) -> None:
    text = "import os\nraise RuntimeError(os.getpid())\n"
    compiler = compilers.take(text)
    first = tell(compiler)
    compilers.give_back(compiler)
    os.kill(int(first), signal.SIGKILL)
    while compiler.is_ready:
        pass
    other = compilers.take(text)
    assert tell(other) != first
    other.end()


@needs_triton
def test_a_copy_that_a_file_makes_of_its_process_answers_nothing(compilers: _Compilers) -> None:
    compiler = compilers.take("import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nraise OSError('once')\n")
    assert [tell(compiler) for _ in range(3)] == ["once"] * 3
    assert compiler.is_ready
    compiler.end()


@needs_triton
@pytest.mark.parametrize(
    ("ends", "how"),
    [("os._exit(3)", "exit code 3"), ("os.kill(os.getpid(), 11)", "Segmentation fault"), ("os.abort()", "Aborted")],
)
def test_how_a_process_ended_is_told_at_once_and_what_it_started_ends(
    compilers: _Compilers, tmp_path: Path, ends: str, how: str
) -> None:
    text = f"import os, time\nif not os.fork():\n    time.sleep(600)\nprint('last', flush=True)\n{ends}\n"
    compiler = compilers.take(text)
    assert compiler.ask([text, "", [], [], [], ""]) == {"ended": f"ended ({how})"}
    assert compiler.end() == "last"


@needs_triton
@pytest.mark.parametrize("by_signal", [False, True])
def test_nothing_is_left_of_processes_that_end(compilers: _Compilers, tmp_path: Path, by_signal: bool) -> None:
    text = f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}} ')\ntime.sleep(600)\n"
    compiler = compilers.take(text)
    asked = Thread(target=compiler.ask, args=([text, "", [], [], [], ""],))
    asked.start()
    while not (tmp_path / "pid").exists() or not (told := (tmp_path / "pid").read_text()).endswith(" "):
        pass
    assert compilers._folder is not None
    folder = compilers._folder.path
    if by_signal:
        os.kill(pid_of(compilers), signal.SIGTERM)
        asked.join()
    compilers.end()
    asked.join()
    compiler.end()
    assert not folder.exists()
    with suppress(OSError):
        while Path(f"/proc/{told.strip()}/cmdline").read_bytes():  # there is nothing of one that has ended
            pass


@needs_triton
def test_what_imports_torch_costs_nobody_else_anything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    compilers = _Compilers()
    with_torch, without = compilers.take("import torch\n"), compilers.take(TELLS)
    assert "import triton, torch" in with_torch.ask(["", "", [], [], [], ""])["ended"]
    assert tell(without)
    with_torch.end()
    without.end()
    compilers.end()


@needs_triton
def test_a_triton_that_is_too_old_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("triton.compiler.ASTSource", lambda fn, signature, constants: None)
    with pytest.raises(ValueError, match=r"too old to compile ahead; pip install 'triton>=3\.3'"):
        Compiler(tmp_path).answer("", "", [], [], [], "sm_90")


def test_no_process_is_started_where_there_can_be_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    monkeypatch.setattr("cuprof.backends.cuda.triton._COMPILERS", _Compilers())
    with pytest.raises(BuildError, match=r"cannot be started: .*No such file"):
        build().run()


CARET = "at 1:4:\ndef scale(x):\n    ^"


def test_what_triton_refuses_a_kernel_for_is_found_in_what_it_shows() -> None:
    assert explain(ValueError(f"{CARET}\nx is not defined")) == "ValueError: x is not defined"
    called = RuntimeError(CARET)
    called.__cause__ = NameError(f"{CARET}\ny is not defined")
    assert explain(called) == "NameError: y is not defined"
    assembler = (
        "PTXAS error: Internal\nptxas t.ptx, line 3; error   : Not a name\nptxas fatal : So\n\nRepro command: ptxas"
    )
    assert explain(RuntimeError(assembler)) == "RuntimeError: Not a name"
    said = "main_.py:4:5: error: failed to legalize operation 'tt.return'\nmodule {"
    assert explain(RuntimeError("PassManager::run failed"), said).endswith("failed to legalize operation 'tt.return'")
    assert explain(SystemExit()) == "SystemExit: SystemExit"
    assert explain(TypeError("<function f at 0x7f0123>")) == "TypeError: <function f>"


HEURISTIC = """
import triton
import triton.language as tl

@triton.heuristics({"num_warps": lambda its: its["n"] // 125, "EVEN": lambda its: its["n"] % its["BLOCK"] == 0})
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), EVEN)
"""


@needs_triton
def test_heuristics_give_constants_and_options_and_are_told_when_they_raise() -> None:
    heuristic = replace(build(), text=HEURISTIC, constants=(("BLOCK", 256),))
    assert heuristic.run().launch["threads"] == 8 * 32
    wrong = replace(heuristic, text=HEURISTIC.replace('its["BLOCK"]', 'its["x"].shape'))
    with pytest.raises(BuildError, match=r"heuristics of EVEN raised AttributeError.* nothing of a buffer"):
        wrong.run()


@needs_triton
def test_what_a_file_prints_is_no_answer() -> None:
    text = FILE.read_text().replace("import triton\n", "print('{}', flush=True)\nimport triton\n", 1)
    assert replace(build(), text=text).run().symbols == {"scale": "scale"}


TELLS = "import os\nraise RuntimeError(os.getppid())\n"


def tell(compiler: _Compiler) -> str:
    """Return what the file of a compiler raises."""
    answer = compiler.ask([compiler.text, "", [], [], [], ""])
    return str(answer["error"]).partition(": ")[2]


def pid_of(compilers: _Compilers) -> int:
    return compilers._origins[""]._process.pid
