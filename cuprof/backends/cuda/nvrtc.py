"""Compile CUDA C++ to a cubin with NVRTC: no GPU, no driver and no nvcc needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from cuprof.backends.build_cache import Built
from cuprof.backends.ptxas import read_resources, refusal
from cuprof.core.errors import BuildError, MissingDependencyError
from cuprof.families.headers import INSTALL, REMEDY, explain_absence, find_headers, uses_headers

STANDARD_OPTIONS = ("-std=c++17", "-default-device", "--ptxas-options=-v", "-lineinfo")
"""Given to every compilation: resource figures in the log, and line numbers for profilers."""


@dataclass(frozen=True)
class NvrtcBuild:
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
        nvrtc = load_nvrtc()
        folders = find_headers().folders if uses_headers(self.text) else ()
        arguments = [f"-arch={self.arch}", *STANDARD_OPTIONS]
        arguments += [f"-D{macro}={value}" for macro, value in self.defines.items()]
        arguments += [f"-I{folder}" for folder in folders]
        with _program(self.text, self.name) as program:
            for expression in self.expressions:
                _answer(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
            result = _compile(program, [*arguments, *self.options])
            log = _read(program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
            if int(result):
                first = _first_error(log) or result.name
                hint = _hint(first, folders) or _broken_header(self.text, first, self.arch, folders, self.defines)
                raise refusal(f"NVRTC refused {self.name} for {self.arch}: {first}{hint}", log)
            image = _read(program, "CUBIN")
            symbols = {
                expression: str(_answer(nvrtc.nvrtcGetLoweredName(program, expression.encode())).decode())
                for expression in self.expressions
            }
        return Built(image, log, read_resources(log), symbols)


@cache
def load_nvrtc() -> ModuleType:
    """Return `cuda.bindings.nvrtc` with its library loaded, or raise `MissingDependencyError`."""
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise MissingDependencyError("cuda-bindings, through which NVRTC is called,", INSTALL) from None
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


BUILTIN = "__nv_nvrtc_builtin_header.h"
"""What NVRTC puts before every source."""
_ERROR = re.compile(r"\berror\b[^:'\"]*:")
"""NVRTC's "error:", "error #20:" and "catastrophic error:", ptxas's "error   :"; no name that a warning quotes."""


def _hint(error: str, folders: Sequence[Path]) -> str:
    """Return what helps against a header that was not found, or the empty text."""
    lacking = re.search(r'not open source file "([^"]+)"', error)
    if not lacking:
        return ""
    if any((folder / "cuda" / "std" / lacking[1]).is_file() for folder in folders):
        return f"; in device code it is <cuda/std/{lacking[1]}>"
    absence = explain_absence(lacking[1], nvrtc_version().partition(".")[0])
    if not absence and not any((folder / "cuda_fp16.h").is_file() for folder in folders):
        return f"; CUDA's own headers were not found: {REMEDY}"
    return f"; {absence}" if absence else ""


def _broken_header(text: str, error: str, arch: str, folders: Sequence[Path], defines: Mapping[str, str | int]) -> str:
    """Return which macros break a header that is not the source's own, or what else helps; else the empty text.

    Each is tried by itself with what the source includes in angle brackets, and nothing else of it.
    """
    place = re.match(r"(?P<file>[^()]+)\(\d+\): ", error)
    if place is None or not (
        place["file"] == BUILTIN or any(Path(place["file"]).is_relative_to(each) for each in folders)
    ):
        return ""
    included = "\n".join(re.findall(r"^[ \t]*#[ \t]*include[ \t]*<[^>\n]+>", text, re.MULTILINE))
    common = [f"-arch={arch}", STANDARD_OPTIONS[0], STANDARD_OPTIONS[1], *(f"-I{folder}" for folder in folders)]
    if not _compiles(included, common):
        return '; NVRTC does not compile that header: include one for device code alone, or have compiler="nvcc"'
    broken = [
        f"{name}={value}" for name, value in defines.items() if not _compiles(included, [*common, f"-D{name}={value}"])
    ]
    if not broken:
        return ""
    macros = " and ".join(broken)
    return f"; that header is not the source's own, and the macro {macros} replaces names in it: rename the macro"


def _compiles(text: str, arguments: Sequence[str]) -> bool:
    with _program(text, "headers.cu") as program:
        return not int(_compile(program, arguments))


@contextmanager
def _program(text: str, name: str) -> Iterator[object]:
    program = _answer(load_nvrtc().nvrtcCreateProgram(text.encode(), name.encode(), 0, [], []))
    try:
        yield program
    finally:
        load_nvrtc().nvrtcDestroyProgram(program)


def _compile(program: object, arguments: Sequence[str]) -> Any:
    """Return the compiler's verdict, an `nvrtcResult`."""
    return load_nvrtc().nvrtcCompileProgram(program, len(arguments), [argument.encode() for argument in arguments])[0]


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
