"""One OpenCL device as everything in this package uses it: context, queue, compiler, errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from cuprof.backends.contract import DeviceLostError
from cuprof.backends.opencl.presence import find_devices, import_pyopencl
from cuprof.backends.opencl.timing import OpenClTimer
from cuprof.core.errors import BuildError, CuprofError, DeviceMemoryError, LaunchError, MissingDependencyError
from cuprof.families import Program

NO_DEVICE_REMEDY = (
    "for the CPU: apt install pocl-opencl-icd; for an NVIDIA GPU: "
    "echo libnvidia-opencl.so.1 > /etc/OpenCL/vendors/nvidia.icd"
)
LOST_CODES = frozenset({-5, -36, -9999})
"""CL_OUT_OF_RESOURCES, CL_INVALID_COMMAND_QUEUE, and NVIDIA's own code: the errors that follow a crashed kernel."""
NO_MEMORY = -4
"""CL_MEM_OBJECT_ALLOCATION_FAILURE."""


class OpenClDevice:
    """One device, chosen by ordinal in `find_devices`, with a context and an in-order queue of its own.

    Attributes:
        cl: the module pyopencl.
        handle: PyOpenCL's device.
    """

    def __init__(self, index: int = 0) -> None:
        self.cl = import_pyopencl()
        devices = find_devices()
        if not devices:
            raise MissingDependencyError("an OpenCL device", NO_DEVICE_REMEDY)
        if index >= len(devices):
            raise CuprofError(f"device.opencl={index}: there are {len(devices)} OpenCL devices, numbered from 0")
        self.index = index
        self.handle = devices[index]
        self.context = self.cl.Context([self.handle])
        profiling = self.cl.command_queue_properties.PROFILING_ENABLE
        self.queue = self.cl.CommandQueue(self.context, self.handle, properties=profiling)
        self.is_nvidia = "NVIDIA" in self.handle.platform.name

    @cached_property
    def timer(self) -> OpenClTimer:
        """Return the timing apparatus of this device, made at first use."""
        return OpenClTimer(self.cl, self.context, self.queue)

    def build(self, text: str, name: str, program: Program) -> tuple[Any, str]:
        """Return the built program and the compiler's log; PyOpenCL and the drivers cache builds by themselves."""
        options = [f"-D{macro}={value}" for macro, value in program.defines.items()]
        options += ["-cl-nv-verbose", *program.options] if self.is_nvidia else program.options
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.cl.CompilerWarning)  # the log is kept; it is no failure
            try:
                built = self.cl.Program(self.context, text).build(options, [self.handle])
            except self.cl.RuntimeError as error:
                log = str(error)
                first = next((line.strip() for line in log.splitlines() if "error:" in line), log.partition("\n")[0])
                first = re.sub(r"\S*/tempfile_\w+\.cl", name, first)  # PoCL's copy of the text, another at each build
                raise BuildError(f"the OpenCL compiler refused {name}: {first}", log) from error
        return built, str(built.get_build_info(self.handle, self.cl.program_build_info.LOG) or "").strip()

    @contextmanager
    def errors(self, what: str, waiting: bool = False) -> Iterator[None]:
        """Turn OpenCL's errors into `LaunchError`, or `DeviceLostError` where a failed kernel is found by waiting."""
        try:
            yield
        except self.cl.Error as error:
            if error.code == NO_MEMORY:
                raise DeviceMemoryError(what, str(error).splitlines()[0]) from error
            lost = waiting and error.code in LOST_CODES
            kind = DeviceLostError if lost else LaunchError
            raise kind(f"{what}: {str(error).splitlines()[0]}") from error
