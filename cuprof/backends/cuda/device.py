"""One CUDA device as everything in this package uses it: context, stream, memory, and the framework's own kernels."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cuprof.backends.contract import DeviceLostError
from cuprof.backends.cuda.driver import CONTEXT_LOST, PackedLaunch, call, error_for, load_driver, read_attribute
from cuprof.backends.cuda.timing import CudaTimer
from cuprof.backends.torch_bridge import stream_of
from cuprof.builds import BuildPool
from cuprof.builds.nvrtc import NvrtcBuild, pick_arch
from cuprof.core.errors import DeviceMemoryError, ImpossibleError, LaunchError, needing
from cuprof.core.project import own_builds
from cuprof.families import Launch
from cuprof.families.program import is_extended

LIMITS = (
    "STACK_SIZE", "PRINTF_FIFO_SIZE", "MALLOC_HEAP_SIZE", "MAX_L2_FETCH_GRANULARITY", "PERSISTING_L2_CACHE_SIZE",
)  # fmt: skip
"""Limits of a context that a variant may change."""
SAID = ("OutOfResources", "LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch")
"""How errors of Triton, Numba and PyTorch name a launch that is too large for the device."""
CHECKSUM_BLOCKS, CHECKSUM_THREADS = 4, 512
"""Blocks a multiprocessor, and threads a block."""
RUNTIME = re.compile(r"(/\S*/libcudart[^/\s]*\.so\S*)$", re.MULTILINE)
"""A copy of CUDA's runtime that libraries share (PyTorch, extensions), under whatever name its package gives it."""
Parts = tuple[tuple[int, int], ...]
"""Parts of the device's memory: address and bytes of each."""


class CudaDevice:
    """One device, chosen by ordinal. Opening it makes its primary context current in this thread."""

    def __init__(self, index: int = 0, cache: BuildPool | None = None) -> None:
        with needing("CuPy", "pip install 'cuprof[cuda13]' (or [cuda12])"):
            import cupy
        self.cupy, self.driver, self.index = cupy, load_driver(), index
        # CuPy would make the context too, and let no other thread run for the quarter of a second that it takes; what
        # the driver refuses is CuPy's to say.
        self.driver.cuInit(0)
        self.driver.cuDevicePrimaryCtxRetain(index)
        cupy.cuda.Device(index).use()
        cupy.cuda.runtime.free(0)
        self.stream = cupy.cuda.Stream.null
        self.claim()
        self.attribute = partial(read_attribute, index)
        self.cache = cache or BuildPool()
        self.own_cache = cache or BuildPool(own_builds())
        self.arch = pick_arch(self.attribute("COMPUTE_CAPABILITY_MAJOR"), self.attribute("COMPUTE_CAPABILITY_MINOR"))
        self.multiprocessors = self.attribute("MULTIPROCESSOR_COUNT")
        self._context = call(self.driver.cuCtxGetCurrent(), "find the context")
        kinds = self.driver.CUlimit
        limits = [getattr(kinds, f"CU_LIMIT_{name}") for name in LIMITS if hasattr(kinds, f"CU_LIMIT_{name}")]
        self._limits = {limit: self._read_limit(limit) for limit in limits}
        self._cache_config = self.driver.cuCtxGetCacheConfig()[1]
        self._no_window = self.driver.CUstreamAttrValue()
        self._runtimes: list[ctypes.CDLL] = []
        self._load_own = lru_cache(None)(self._load_own_anew)
        self._prepare_checksums = lru_cache(16)(self._make_checksums)

    @property
    def timer(self) -> CudaTimer:
        """Return the timing apparatus of this device; its own cost is measured at first use."""
        if not self.idle_timer.own_costs:
            self.idle_timer.calibrate()
        return self.idle_timer

    @cached_property
    def idle_timer(self) -> CudaTimer:
        """Return the timing apparatus, whose own cost may be unknown yet: other processes may be using the device."""
        return CudaTimer(self)

    def claim(self) -> None:
        """Make this device and its stream, the legacy default one, current, in CuPy and, if loaded, in PyTorch.

        Called before a variant's own code runs, so that it does not inherit another variant's current device or stream.
        A library without an explicit stream uses the legacy default stream, and every blocking stream synchronises with
        it.
        """
        self.cupy.cuda.Device(self.index).use()
        self.stream.use()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.set_stream(stream_of(torch, self.stream.ptr, self.index))

    def find_runtimes(self) -> None:
        """Record the copies of CUDA's runtime loaded by now; none if the system does not list them."""
        with suppress(OSError):
            files = dict.fromkeys(RUNTIME.findall(Path("/proc/self/maps").read_text()))
            self._runtimes = [ctypes.CDLL(file, os.RTLD_NOLOAD | os.RTLD_NOW) for file in files]

    def forget_errors(self) -> None:
        """Clear every runtime's last error, or PyTorch would raise another variant's after its next launch."""
        for runtime in self._runtimes:
            runtime.cudaGetLastError()

    def put_back(self, *, settings: bool = True) -> bool:
        """Undo a variant's changes: current context and stream, errors, and lines that persist in L2.

        With `settings`, limits and cache configuration of the context too; return whether those were changed.
        """
        driver, changed = self.driver, False
        driver.cuCtxSetCurrent(self._context)
        self.claim()
        self.forget_errors()
        for limit, known in self._limits.items() if settings else ():
            if known is not None and self._read_limit(limit) != known:
                driver.cuCtxSetLimit(limit, known)
                changed = True
        if settings and driver.cuCtxGetCacheConfig()[1] != self._cache_config:
            driver.cuCtxSetCacheConfig(self._cache_config)
            changed = True
        window = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
        status, found = driver.cuStreamGetAttribute(self.stream.ptr, window)
        if not int(status) and found.accessPolicyWindow.num_bytes:
            driver.cuStreamSetAttribute(self.stream.ptr, window, self._no_window)
        driver.cuCtxResetPersistingL2Cache()
        return changed

    def _read_limit(self, limit: Any) -> int | None:
        """Return a limit of the context; None where the device has none of the kind."""
        status, value = self.driver.cuCtxGetLimit(limit)
        return None if int(status) else int(value)

    def launch(
        self,
        name: str,
        blocks: int,
        threads: int,
        arguments: list[Any],
        rows: int = 1,
        file: str = "device_kernels.cu",
        types: Mapping[str, str] = MappingProxyType({}),
        owners: Sequence[Any] = (),
    ) -> PackedLaunch:
        """Return a launch of the framework's own kernel `cuprof_NAME`, compiled at first use.

        Args:
            arguments: addresses as integers, other numbers as NumPy scalars.
            rows: of the grid, of `blocks` each.
            types: macros of the file.
            owners: what the arguments point into, kept alive as long as the launch.
        """
        symbol, module = f"cuprof_{name}", self._load_own(file, tuple(types.items()))
        function = call(self.driver.cuModuleGetFunction(module, symbol.encode()), f"find kernel {symbol}")
        return PackedLaunch(Launch(symbol, (blocks, rows), (threads,)), function, arguments, owners)

    def _load_own_anew(self, file: str, types: tuple[tuple[str, str], ...]) -> Any:
        source = (Path(__file__).parent / file).read_text()
        return self.load(self.own_cache.compile(NvrtcBuild(source, file, self.arch, dict(types)))[0].image)

    def checksums(self, parts: Parts) -> list[int]:
        """Return a hash of each part of the device's memory.

        Any change of one word changes it; changes of several leave it as it was with a probability of 2^-32.
        """
        if not parts:
            return []
        launch, sums = self._prepare_checksums(parts)
        sums.fill(0)
        launch(self.stream.ptr)
        return [int(total) for total in sums.get()]

    def _make_checksums(self, parts: Parts) -> tuple[PackedLaunch, Any]:
        table = self.upload(np.array(parts, np.uint64))
        sums = self.cupy.empty(len(parts), np.uint64)
        blocks = CHECKSUM_BLOCKS * self.multiprocessors
        given = [table.data.ptr, sums.data.ptr]
        return self.launch("checksum", blocks, CHECKSUM_THREADS, given, len(parts), owners=[table]), sums

    def upload(self, array: np.ndarray, target: Any = None) -> Any:
        """Copy a host array to the device and wait.

        `cupy.asarray` stages large arrays in page-locked memory and keeps that for later. Kernels can reach page-locked
        memory, so Nsight Compute saves it again for every launch that it replays: 128 MiB of it doubled the time of
        profiling a launch.

        Args:
            target: a device array of the same shape and type to copy into; a new one when None.

        Returns:
            The device array.

        Raises:
            LaunchError: the copy failed.
        """
        host = as_bits(np.asarray(array, order="C"))
        device = self.cupy.empty(host.shape, host.dtype) if target is None else target
        if host.nbytes:
            copy = self.driver.cuMemcpyHtoDAsync(device.data.ptr, host.ctypes.data, host.nbytes, self.stream.ptr)
            call(copy, "copy to the device")
        call(self.driver.cuStreamSynchronize(self.stream.ptr), "copy to the device")
        return device

    def pinned_array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a page-locked host array, which kernels see at its own address; its elements are undefined."""
        count = int(np.prod(shape, dtype=np.int64))
        memory = self.cupy.cuda.alloc_pinned_memory(max(count * dtype.itemsize, 1))
        return np.frombuffer(memory, dtype, count).reshape(shape)

    def load(self, image: bytes) -> Any:
        """Return a loaded module; it stays loaded as long as the process."""
        return call(self.driver.cuModuleLoadData(image), "load the compiled module")

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn CuPy's exceptions, and those of other libraries on the device, into cuprof's."""
        try:
            yield
        except Exception as error:
            if mended := _translate(error, what):
                raise mended from error
            raise


def as_bits(array: np.ndarray) -> np.ndarray:
    """Return an array of a type that CuPy lacks as one of whole numbers of that size, of structs as one of their bytes.

    Of structs the bytes of an element are a further, last axis.
    """
    kind = array.dtype
    if kind.names is not None:
        return array[..., None].view(np.uint8)
    return array.view(f"u{kind.itemsize}") if is_extended(kind) else array


def _translate(error: Exception, what: str) -> LaunchError | None:
    """Return cuprof's error for one of CuPy, PyTorch, Triton or Numba; None for any other."""
    first = f"{what}: {(str(error).splitlines() or [''])[0]}"
    if any(name in f"{type(error).__name__}: {error}" for name in SAID):
        return ImpossibleError(first)
    status = getattr(error, "status", None)
    if isinstance(status, int):
        is_cudas = status in CONTEXT_LOST or "CUDA" in type(error).__name__
        return error_for(status, what) if is_cudas else LaunchError(f"{what}: {error}")
    if type(error).__name__ == "OutOfMemoryError":  # so CuPy's and PyTorch's are called
        return DeviceMemoryError(what, error)
    if isinstance(error, RuntimeError) and "CUDA error" in str(error):  # PyTorch and friends
        return DeviceLostError(first)
    return None
