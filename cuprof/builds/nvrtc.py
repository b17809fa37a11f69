"""Compile CUDA C++ to a cubin with NVRTC: no GPU, no driver and no nvcc needed.

A source's macros follow its includes, in place of `-D` options, wherever its first lines allow that. The headers are
then the same for every choice of macros. A process compiles them once, and those that it forks start from there (NVRTC
13.0 User Guide, "Precompiled Headers").
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from cuprof.builds.ptxas import read_resources, refusal
from cuprof.builds.result import VIRTUAL, Build, Built, Preload
from cuprof.core.errors import BuildError, MissingDependencyError, needing
from cuprof.families.toolchain import INSTALL, REMEDY, explain_absence, find_headers, uses_headers

STANDARD_OPTIONS = ("-std=c++17", "-default-device", "--ptxas-options=-v", "-lineinfo")
"""Given to every compilation: resource figures in the log, and line numbers for profilers."""
MINIMAL = "-minimal"
"""Leaves the runtime's functions, textures and surfaces out of what NVRTC declares ahead of a source: a light build is
faster by a sixth, and its machine code is the same."""
HEADER_BYTES = 640 << 20
"""Address space for precompiled headers; CUB's block primitives fill half of it."""
LEADING = re.compile(
    r"(?:\s+|//[^\n]*\n|/\*.*?\*/|[ \t]*#[ \t]*(?:include|define|undef|pragma)\b(?:\\\n|[^\n])*\n)*", re.DOTALL
)
"""Comments, includes and plain directives before the first line of code or the first condition."""
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<[^>\n]+>.*\n", re.MULTILINE)
CONFIGURING = ("_", "CUB_", "THRUST_", "CCCL_", "LIBCUDACXX_", "CUDA_", "NV_", "NVTX_", "CUTLASS_", "CUTE_", "NDEBUG")
"""How macros begin that headers look at; these stay options."""
ADDS_HEADERS = ("-I", "--include", "-include", "--pre-include", "-pch", "-D", "-U", "--define", "--undefine")
"""How options begin with which the headers may be the user's own, or depend on macros."""
_PRECOMPILED: dict[Preload, Path] = {}
"""What `precompile` has made in this process, or in the one that it was forked from."""


def precompile(text: str, arguments: tuple[str, ...]) -> None:
    """Compile the first lines of a source, includes and all; this process and those that it forks use the result.

    Args:
        arguments: of the compiler, the macros that headers look at among them.

    Raises:
        BuildError: NVRTC made none.
    """
    nvrtc, file = load_nvrtc(), Path(tempfile.gettempdir(), "headers.pch")
    _answer(nvrtc.nvrtcSetPCHHeapSize(HEADER_BYTES))
    with _program(text, "headers.cu") as program:
        _answer(_compile(program, [*arguments, f"-create-pch={file}"]))
        _answer(nvrtc.nvrtcGetPCHCreateStatus(program))
    _PRECOMPILED[precompile, text, arguments] = file


@dataclass(frozen=True)
class NvrtcBuild(Build):
    """Compile CUDA C++ to machine code for one architecture.

    Args:
        name: of the file, for the compiler's messages.
        arch: "sm_90" and the like.
        defines: preprocessor macros.
        options: further ones of NVRTC, after the standard ones.
        expressions: C++ names of kernels, such as `scale<float, 256>`, to be instantiated.
    """

    text: str
    name: str
    arch: str
    defines: Mapping[str, str | int] = field(default_factory=dict)
    options: Sequence[str] = ()
    expressions: Sequence[str] = ()

    @property
    def preload(self) -> Preload:
        """Return what loads NVRTC's library."""
        return (load_nvrtc,)

    @property
    def headers(self) -> Preload:
        """Return what compiles the first lines, which builds with other macros share; nothing without an include."""
        first, _, arguments = self._arrange()
        return (precompile, first, arguments) if first else ()

    def content(self) -> list[object]:
        """Return what decides the result; the name of the file does not."""
        defines = sorted((macro, str(value)) for macro, value in self.defines.items())
        parts = [self.text, self.arch, defines, list(self.options), list(self.expressions), list(STANDARD_OPTIONS)]
        headers = [find_headers().version] if uses_headers(self.text) else []
        return [*parts, nvrtc_version(), *headers]

    def run(self) -> Built:
        """Compile, with CUDA's own headers where the source includes any.

        Raises:
            BuildError: the compiler refused; the message is its first error line, `log` its whole output.
            MissingDependencyError: cuda-bindings or the NVRTC library is not installed.
        """
        _, text, arguments = self._arrange()
        if precompiled := _PRECOMPILED.get(self.headers):
            arguments += (f"-use-pch={precompiled}",)
        if "#include" not in self.text:
            with suppress(BuildError):  # older compilers have no such option, and some sources need what it leaves out
                return self._build(text, (*arguments, MINIMAL))
        return self._build(text, arguments)

    def _build(self, text: str, arguments: Sequence[str]) -> Built:
        nvrtc = load_nvrtc()
        with _program(text, self.name) as program:
            for expression in self.expressions:
                _answer(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
            status = _compile(program, arguments)[0]
            log = _read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            log = "\n".join(line for line in log.splitlines() if "using precompiled header file" not in line).strip()
            if int(status):
                first = _first_error(log) or status.name
                raise refusal(f"NVRTC refused {self.name} for {self.arch}: {first}{_hint(self.text, first)}", log)
            image = _read(program, "PTX" if self.arch.startswith(VIRTUAL) else "CUBIN")
            symbols = {
                expression: str(_answer(nvrtc.nvrtcGetLoweredName(program, expression.encode())).decode())
                for expression in self.expressions
            }
        return Built(image, log, read_resources(log), symbols)

    def _arrange(self) -> tuple[str, str, tuple[str, ...]]:
        """Return the lines up to the last leading include, the text to compile, and the arguments.

        The text has the macros after these lines, and the lines after them the numbers that they have in the file.
        Where macros stay options there are no such lines.
        """
        leading, includes = LEADING.match(self.text), list[re.Match[str]]()
        if leading and not any(option.startswith(ADDS_HEADERS) for option in self.options):
            includes = list(INCLUDE.finditer(leading[0]))
        first = self.text[: includes[-1].end()] if includes else ""
        moved = {name: value for name, value in self.defines.items() if first and not _stays(name, value)}
        macros = (f"-D{name}={value}" for name, value in self.defines.items() if name not in moved)
        folders = find_headers().folders if uses_headers(self.text) else ()
        options = *macros, *(f"-I{each}" for each in folders), *self.options
        defined = "".join(f"#define {name} {value}\n" for name, value in moved.items())
        line = f"#line {first.count(chr(10)) + 1}\n" if first else ""
        text = f"{first}{defined}{line}{self.text[len(first) :]}"
        return first, text, (f"-arch={self.arch}", *STANDARD_OPTIONS, *options)


def _stays(name: str, value: str | int) -> bool:
    """Return whether a macro stays an option: headers look at it, or its value is no single line."""
    return name.startswith(CONFIGURING) or "\n" in str(value) or str(value).endswith("\\")


def _hint(text: str, error: str) -> str:
    """Return where a header is that was not found, or how to get it; else the empty text."""
    lacking = re.search(r'not open source file "([^"]+)"', error)
    if lacking is None:
        return ""
    header, folders = lacking[1], find_headers().folders if uses_headers(text) else ()
    if any((folder / "cuda" / "std" / header).is_file() for folder in folders):
        return f"; in device code it is <cuda/std/{header}>"
    absence = explain_absence(header, nvrtc_version().partition(".")[0])
    if not absence and not any((folder / "cuda_fp16.h").is_file() for folder in folders):
        return f"; CUDA's own headers were not found: {REMEDY}"
    return f"; {absence}" if absence else ""


@cache
def load_nvrtc() -> ModuleType:
    """Return `cuda.bindings.nvrtc` with its library loaded, or raise `MissingDependencyError`."""
    with needing("cuda-bindings, through which NVRTC is called,", INSTALL):
        from cuda.bindings import nvrtc
    try:
        answer = nvrtc.nvrtcVersion()
    except Exception as error:  # cuda-bindings raises several unrelated types where the shared library is absent
        raise MissingDependencyError(f"the NVRTC library ({type(error).__name__})", INSTALL) from error
    _answer(answer)
    return nvrtc  # type: ignore[no-any-return]


@cache
def nvrtc_version() -> str:
    """Return the compiler's version, "13.0"."""
    _, major, minor = load_nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


def list_archs() -> list[str]:
    """Return the architectures that the compiler knows, "sm_75" and the like."""
    nvrtc = load_nvrtc()
    _, count = nvrtc.nvrtcGetNumSupportedArchs()
    _, known = nvrtc.nvrtcGetSupportedArchs()
    return [f"sm_{arch}" for arch in list(known)[:count]]


def pick_arch(major: int, minor: int) -> str:
    """Return the newest target that both the compiler and a device of this compute capability know.

    Machine code runs on devices of the same major and the same or a later minor compute capability (CUDA C++
    Programming Guide, "Binary Compatibility").

    Raises:
        BuildError: the compiler knows no target of this major compute capability.
    """
    known = [int(arch.removeprefix("sm_")) for arch in list_archs()]
    wanted = 10 * major + minor
    fitting = [arch for arch in known if arch // 10 == major and arch <= wanted]
    if not fitting:
        raise BuildError(
            f"NVRTC {nvrtc_version()} has no target for compute capability {major}.{minor} "
            f"(it knows {', '.join(map(str, known))}); install the CUDA release that fits the device"
        )
    return f"sm_{max(fitting)}"


_ERROR = re.compile(r"\berror\b[^:'\"]*:")
"""NVRTC's "error:", "error #20:" and "catastrophic error:", ptxas's "error   :"; no name that a warning quotes."""


@contextmanager
def _program(text: str, name: str) -> Iterator[object]:
    program = _answer(load_nvrtc().nvrtcCreateProgram(text.encode(), name.encode(), 0, [], []))
    try:
        yield program
    finally:
        load_nvrtc().nvrtcDestroyProgram(program)


def _compile(program: object, arguments: Sequence[str]) -> Any:
    """Return the compiler's answer, which has an `nvrtcResult` alone."""
    return load_nvrtc().nvrtcCompileProgram(program, len(arguments), [argument.encode() for argument in arguments])


def _first_error(log: str) -> str:
    lines = [line.strip(" \t\0") for line in log.splitlines() if "error" in line.lower()]
    return next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")


def _read(program: object, what: str) -> bytes:
    nvrtc = load_nvrtc()
    content = bytearray(_answer(getattr(nvrtc, f"nvrtcGet{what}Size")(program)))
    _answer(getattr(nvrtc, f"nvrtcGet{what}")(program, content))
    return bytes(content)


def _answer(answer: tuple[Any, ...]) -> Any:
    """Return what a call of NVRTC gave beside its status; nothing where it gives no more, or raise."""
    if int(answer[0]):
        raise BuildError(f"NVRTC failed: {getattr(answer[0], 'name', answer[0])}")
    return answer[1] if len(answer) > 1 else None
