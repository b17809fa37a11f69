"""The device as every tool here uses it: the same compiled kernels, bound to the same buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.backends.contract import Frame
from cuprof.backends.cuda.backend import CudaBackend
from cuprof.backends.cuda.binding import CudaRunnable
from cuprof.backends.cuda.driver import PackedLaunch, call
from cuprof.backends.cuda.timing import PENDING, Work
from cuprof.backends.device_state import StateMonitor
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.config.model import MeasureConfig
from cuprof.core.records import Measure, Timing
from cuprof.families import Launch
from cuprof.families.program import as_scalar
from cuprof.worker.sampler import Sampler, Subject


class Device:
    """The first CUDA device; opening it makes its primary context current. Keeps the buffers that launches point to."""

    def __init__(self) -> None:
        self.backend = CudaBackend(0)
        self.stream: int = self.backend.device.stream.ptr
        self._kept: list[Any] = []

    def allocate(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Return zeroed buffers of these sizes in bytes, without launching a kernel."""
        buffers = {
            name: self.backend.device.cupy.zeros(size, self.backend.device.cupy.uint8) for name, size in sizes.items()
        }
        self.backend.device.stream.synchronize()
        self._kept += buffers.values()
        return buffers

    def load(self, source: Path, defines: Mapping[str, str | int] | None = None) -> Any:
        """Compile a file (or take it from the build cache) and return the loaded module."""
        backend = self.backend.device
        built, _ = backend.cache.compile(NvrtcBuild(source.read_text(), source.name, backend.arch, defines or {}))
        return backend.load(built.image)

    def bind(self, module: Any, launch: Launch, buffers: Mapping[str, Any]) -> PackedLaunch:
        """Return the launch with its arguments packed; call it with a stream."""
        function = call(self.backend.device.driver.cuModuleGetFunction(module, launch.kernel.encode()), "find a kernel")
        arguments = [buffers[value].data.ptr if isinstance(value, str) else as_scalar(value) for value in launch.args]
        return PackedLaunch(launch, function, arguments)

    def run_once(self, launches: Sequence[PackedLaunch]) -> None:
        """Execute each launch and wait: the driver loads a kernel at its first launch."""
        for launch in launches:
            launch(self.stream)
        self.backend.device.stream.synchronize()


class LaunchSession:
    """The part of a session that a `Sampler` uses, over bare launches."""

    def __init__(self, device: Device) -> None:
        self.timer = device.backend.device.timer

    def begin(self, runnable: CudaRunnable, measure: Measure, batch: int = 1) -> Frame:
        """Time one execution with cold caches."""
        return self.timer.cold(Work(runnable.enqueue))

    def in_flight(self, runnable: CudaRunnable) -> int:
        """Return how many frames may be pending."""
        return PENDING

    def tick_ns(self, measure: Measure) -> float:
        """Return the step of event times."""
        return self.timer.tick_ns


def sample_cold(device: Device, launches: Mapping[str, PackedLaunch], target: float = 0.005) -> dict[str, Timing]:
    """Return each launch's cold timing, sampled as a sweep samples: interleaved, until the interval is narrow."""
    device.run_once(list(launches.values()))
    sampler = Sampler(
        session=LaunchSession(device),  # type: ignore[arg-type]
        config=MeasureConfig(target=target),
        method="benchmark",
        rng=np.random.default_rng(),
        attend=lambda key: None,
        monitor=StateMonitor.find(device.backend.facts().uuid),
    )
    names = list(launches)
    subjects = [
        Subject(key, CudaRunnable(on_stream(launches[name], device.stream), {})) for key, name in enumerate(names)
    ]
    return {names[key]: timing for key, timing in sampler.sample(subjects, Measure.COLD)}


def on_stream(launch: PackedLaunch, stream: int) -> Callable[[], None]:
    """Return a function that enqueues the launch."""
    return lambda: launch(stream)
