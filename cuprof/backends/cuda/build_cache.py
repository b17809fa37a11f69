"""Compiled cubins kept on disk, by content, so that a source is compiled once for each target and compiler."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from cuprof.backends.cuda.nvrtc import STANDARD_OPTIONS, Cubin, compile_source, nvrtc_version
from cuprof.backends.ptxas import KernelFacts
from cuprof.family.headers import find_headers, uses_headers
from cuprof.project import user_cache

MOST_THREADS = 8


def default_folder() -> Path:
    """Return `$CUPROF_CACHE`, else a folder in the user's cache."""
    chosen = os.environ.get("CUPROF_CACHE")
    return Path(chosen) if chosen else user_cache() / "cubin"


class BuildCache:
    """Compile through a folder of earlier results.

    Safe for any number of threads and processes: an entry appears by an atomic rename and never changes. A folder that
    cannot be written costs the reuse and nothing else.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()
        self._ahead: dict[str, Future[tuple[Cubin, bool]]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def start(
        self, text: str, *, name: str, arch: str, defines: Mapping[str, str | int], options: Sequence[str] = ()
    ) -> None:
        """Begin to compile in a thread; `compile` with the same arguments waits for it and takes the result.

        NVRTC compiles outside Python's lock, so the builds of a sweep share the processor's cores.
        """
        key = self._key(text, arch, defines, options)
        if key in self._ahead:
            return
        if self._threads is None:
            threads = max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)) - 1))
            self._threads = ThreadPoolExecutor(threads, thread_name_prefix="build")
        build = self._threads.submit(self._compile, key, text, name, arch, defines, options)
        self._ahead[key] = build

    def compile(
        self, text: str, *, name: str, arch: str, defines: Mapping[str, str | int], options: Sequence[str] = ()
    ) -> tuple[Cubin, bool]:
        """Return the compiled source and whether it came from the folder; raises as `compile_source`."""
        key = self._key(text, arch, defines, options)
        ahead = self._ahead.pop(key, None)
        return ahead.result() if ahead else self._compile(key, text, name, arch, defines, options)

    def _compile(
        self, key: str, text: str, name: str, arch: str, defines: Mapping[str, str | int], options: Sequence[str]
    ) -> tuple[Cubin, bool]:
        found = self._find(key)
        if found is not None:
            return found, True
        folders = find_headers().folders if uses_headers(text) else ()
        cubin = compile_source(text, name=name, arch=arch, defines=defines, options=options, include_folders=folders)
        self._keep(key, cubin)
        return cubin, False

    @staticmethod
    def _key(text: str, arch: str, defines: Mapping[str, str | int], options: Sequence[str]) -> str:
        parts = [text, arch, sorted((k, str(v)) for k, v in defines.items()), list(options), STANDARD_OPTIONS]
        headers = [find_headers().version] if uses_headers(text) else []
        return hashlib.sha256(json.dumps([*parts, nvrtc_version(), *headers]).encode()).hexdigest()

    def _find(self, key: str) -> Cubin | None:
        try:
            facts = json.loads((self.folder / f"{key}.json").read_text())
            image = (self.folder / f"{key}.cubin").read_bytes()
            if hashlib.sha256(image).hexdigest() != facts["sha256"]:
                return None
            kernels = {kernel: KernelFacts(**value) for kernel, value in facts["kernels"].items()}
            return Cubin(image, facts["log"], kernels)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):  # damaged: it is made again
            return None

    def _keep(self, key: str, cubin: Cubin) -> None:
        facts = {
            "sha256": hashlib.sha256(cubin.image).hexdigest(),
            "log": cubin.log,
            "kernels": {kernel: asdict(value) for kernel, value in cubin.kernels.items()},
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _replace(self.folder / f"{key}.cubin", cubin.image)
            _replace(self.folder / f"{key}.json", json.dumps(facts).encode())
        except OSError:
            return


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
