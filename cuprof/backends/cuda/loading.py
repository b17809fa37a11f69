"""Load a variant's built program onto the device, and find its kernels and symbols."""

from __future__ import annotations

import ctypes
import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import call, load_driver
from cuprof.backends.functions import load_library
from cuprof.builds import BuildPool, Built
from cuprof.builds.languages import list_builds
from cuprof.builds.machine_code import hash_launched
from cuprof.builds.nvrtc import list_archs
from cuprof.builds.ptxas import KernelFacts, read_resources
from cuprof.core.errors import BuildError, LaunchError, UsageError
from cuprof.families import Program, Signature, Variant
from cuprof.families.sources import to_bytes
from cuprof.families.toolchain import REMEDY, find_headers

RELOCATABLE = frozenset({"-rdc=true", "--relocatable-device-code=true", "-dc", "--device-c"})
"""Options whose cubin must be linked before it is loaded; kernels that launch kernels need them."""
LOG_BYTES = 1 << 16
CACHE = BuildPool()
"""For architectures that need not be here."""


@dataclass
class Loaded:
    """The modules of one program.

    Attributes:
        modules: module → its build, which has no image where that was precompiled.
        places: kernel → its module; empty if there is only one.
        cached: all of it came from the cache.
    """

    name: str
    modules: list[tuple[Any, Built]] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    library: ctypes.CDLL | None = None
    cached: bool = True
    build_ns: int = 0
    log: str = ""
    resources: dict[str, KernelFacts] = field(default_factory=dict)

    def function(self, kernel: str) -> Any:
        """Return a kernel by its symbol, its C++ name or its name expression.

        Raises:
            LaunchError: there is none, or several; the message lists those there are.
        """
        module, built = self.modules[self.places.get(kernel, 0)]
        status, function = load_driver().cuModuleGetFunction(module, built.symbols.get(kernel, kernel).encode())
        if not int(status):
            return function
        named = {_symbol(each): each for each in _functions(module)}
        fitting = [each for name, each in named.items() if plain_name(demangle(name)) == plain_name(kernel)]
        if len(fitting) != 1:
            there = ", ".join(demangle(name) for name in named) or "none"
            found = f"has {len(fitting)} of this name" if fitting else "has no such kernel"
            raise LaunchError(f"find kernel {kernel}: {self.name} {found}; there are {there}")
        call(load_driver().cuFuncLoad(fitting[0]), f"load kernel {kernel}")  # until then it has no attributes
        return fitting[0]

    def built(self, kernel: str) -> Built:
        """Return the build that contains a kernel."""
        return self.modules[self.places.get(kernel, 0)][1]

    def spill_bytes(self, kernel: str, local_bytes: int) -> int | None:
        """Return a kernel's spills in bytes; None if they cannot be told from its own arrays in local memory."""
        known = self.resources.get(_symbol(self.function(kernel)))
        if known is not None:
            return known.spill_bytes
        has_none = bool(self.built(kernel).launch)  # Triton's kernels
        return local_bytes if has_none or not local_bytes else None

    def constant(self, symbol: str) -> tuple[int, int]:
        """Return the address and size in bytes of a `__constant__` symbol."""
        answer = load_driver().cuModuleGetGlobal(self.modules[0][0], symbol.encode())
        address, size = call(answer, f"find __constant__ {symbol} of {self.name}")
        return int(address), int(size)

    @property
    def sass_hash(self) -> str:
        """Return the hash of the program's machine code; empty where some of it is no cubin that can be read."""
        hashes = sorted(hash_launched(built.image, self.places) for _, built in self.modules)
        if not hashes or not all(hashes) or self.library is not None:
            return ""
        return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()

    def unload(self) -> None:
        """Give the modules back."""
        for module, _ in self.modules:
            load_driver().cuModuleUnload(module)


def load_program(device: CudaDevice, variant: Variant, program: Program, text: str, signature: Signature) -> Loaded:
    """Build a program if needed, and load it.

    Raises:
        BuildError, MissingDependencyError: see `Build.run`.
        LaunchError: the driver refused.
    """
    started, loaded = time.monotonic_ns(), Loaded(variant.source or variant.name)
    builds = list_builds(variant, program, text, signature, device.arch)
    if not builds:
        image = to_bytes(text)
        if Path(loaded.name).suffix == ".ptx":
            image, loaded.log = assemble(image.rstrip(b"\0") + b"\0", "PTX", loaded.name)
            loaded.resources |= read_resources(loaded.log)
        loaded.modules.append((device.load(image), Built(b"", loaded.log)))
    made: dict[int, int] = {}
    for kernel, build in builds.items():
        if id(build) not in made:
            built, cached = device.cache.compile(build)
            loaded.cached &= cached
            loaded.log = "\n".join(filter(None, (loaded.log, built.log)))
            loaded.resources |= built.kernels
            made[id(build)] = len(loaded.modules)
            if kernel:
                image = link(built.image, loaded.name) if RELOCATABLE & {*program.options} else built.image
                loaded.modules.append((device.load(image), built))
            else:
                loaded.library = load_library(built.image, loaded.name)
        loaded.places[kernel] = made[id(build)]
    loaded.build_ns = time.monotonic_ns() - started
    return loaded


def build_images(variant: Variant, program: Program, text: str, signature: Signature, arch: str) -> list[bytes]:
    """Compile one program as before a run, and return its images; one compiled before comes from the cache.

    Args:
        arch: "sm_90" and the like; "compute_90" for PTX.

    Raises:
        UsageError: the compiler does not know the architecture.
        BuildError: the compiler refused, or its output lacks a launched kernel.
    """
    known = list_archs()
    if not re.fullmatch(r"(sm|compute)_\d+[af]?", arch) or f"sm_{arch.rpartition('_')[2].rstrip('af')}" not in known:
        raise UsageError(f"unknown architecture {arch!r}; this compiler knows {', '.join(known)}")
    images: dict[bytes, None] = {}
    for kernel, each in list_builds(variant, program, text, signature, arch).items():
        made, _ = CACHE.compile(each)
        images[made.image] = None
        if kernel and kernel not in made.symbols and made.image.startswith(b"\x7fELF"):
            there = [demangle(name.decode()) for name in sorted({*re.findall(rb"\.text\.([\w$]+)", made.image)})]
            if all(plain_name(name) != plain_name(kernel) for name in there):
                found = ", ".join(there) or "none; a template is named with its arguments: scale<float>"
                raise BuildError(f"{variant.source or variant.name} has no kernel {kernel}; there are {found}")
    return list(images)


def link(image: bytes, name: str) -> bytes:
    """Return a relocatable cubin linked with the device's runtime, with which kernels launch kernels."""
    places = (folder.parent / lib / "libcudadevrt.a" for folder in find_headers().folders for lib in ("lib", "lib64"))
    runtime = next((place for place in places if place.is_file()), None)
    if runtime is None:
        raise BuildError(f"{name}: -rdc=true needs libcudadevrt.a, which is not beside CUDA's headers; {REMEDY}")
    return assemble(image, "CUBIN", name, runtime)[0]


def assemble(image: bytes, kind: str, name: str, runtime: Path | None = None) -> tuple[bytes, str]:
    """Return the cubin that the driver makes of an image of this kind ("PTX", "CUBIN") and a library, and its log."""
    driver = load_driver()
    option, log, errors = driver.CUjit_option, bytearray(LOG_BYTES), bytearray(LOG_BYTES)
    asked: dict[Any, Any] = {option.CU_JIT_LOG_VERBOSE: 1}
    for what, buffer in (("INFO", log), ("ERROR", errors)):
        asked[getattr(option, f"CU_JIT_{what}_LOG_BUFFER")] = buffer
        asked[getattr(option, f"CU_JIT_{what}_LOG_BUFFER_SIZE_BYTES")] = LOG_BYTES
    state = call(driver.cuLinkCreate(len(asked), list(asked), list(asked.values())), f"link {name}")
    try:
        kinds = driver.CUjitInputType
        given = getattr(kinds, f"CU_JIT_INPUT_{kind}")
        status, *made = driver.cuLinkAddData(state, given, image, len(image), name.encode(), 0, [], [])
        if not int(status) and runtime is not None:
            status, *made = driver.cuLinkAddFile(state, kinds.CU_JIT_INPUT_LIBRARY, str(runtime).encode(), 0, [], [])
        if not int(status):
            status, *made = driver.cuLinkComplete(state)
        if int(status):
            said = _read_log(errors)
            raise BuildError(f"the driver's linker refused {name}: {(said or status.name).splitlines()[0]}", said)
        return ctypes.string_at(*map(int, made)), _read_log(log)
    finally:
        driver.cuLinkDestroy(state)


def _read_log(buffer: bytearray) -> str:
    return buffer.rstrip(b"\0").decode(errors="replace").strip()


def _functions(module: Any) -> Iterator[Any]:
    """Yield a module's kernels; none if the driver cannot list them (before CUDA 12.4)."""
    driver = load_driver()
    with suppress(AttributeError, LaunchError, RuntimeError):
        count = call(driver.cuModuleGetFunctionCount(module), "count kernels")
        yield from call(driver.cuModuleEnumerateFunctions(count, module), "list kernels")


def _symbol(function: Any) -> str:
    return str(call(load_driver().cuFuncGetName(function), "read a kernel's name").decode())


@cache
def demangle(symbol: str) -> str:
    """Return a C++ symbol as it is written in a source; others as they are."""
    if not symbol.startswith("_Z"):  # a C function named f would be taken for the type float
        return symbol
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return symbol
    library.__cxa_demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    found = library.__cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if status.value or not found:
        return symbol
    text = ctypes.string_at(found).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(found))
    return text


def plain_name(text: str) -> str:
    """Return a kernel's name of its declaration: "void ns::scale<float, 256>(float*)" → "ns::scale<float,256>"."""
    depth, begin = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if depth == 0 and letter == " ":
            begin = place + 1
        if depth == 0 and letter == "(":
            text = text[:place]
            break
    return text[begin:].replace(" ", "").removeprefix("::")
