"""The buffers of one problem on a CUDA device: refilled before executions, read after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuprof.backends.contract import (
    FIRST_INPUTS,
    POISON_BYTE,
    Draw,
    Draws,
    Frame,
    InputSet,
    ReadingOptions,
    Session,
    Tally,
    first_draw,
)
from cuprof.backends.cuda.binding import Binder, CudaRunnable
from cuprof.backends.cuda.comparison import DeviceComparison
from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import call
from cuprof.backends.cuda.frame_check import find_outside
from cuprof.backends.cuda.guards import DeviceGuards
from cuprof.backends.cuda.refill import DeviceRefill
from cuprof.backends.cuda.timing import Surroundings
from cuprof.backends.cuda.transfers import Transfers
from cuprof.core.errors import DeviceMemoryError
from cuprof.core.records import Check, Measure
from cuprof.families import Arrays, Point, Program, Signature, Tolerances, Variant

LATE_S = 0.003
"""A checking execution waits this long for launches by other threads."""


class CudaSession(Session[CudaRunnable]):
    """Inputs, outputs and scratch of one problem in device memory."""

    def __init__(
        self,
        device: CudaDevice,
        signature: Signature,
        inputs: Arrays,
        options: ReadingOptions,
        scratch_bytes: int,
    ) -> None:
        self.device, self.options, self.signature = device, options, signature
        self.driver = device.driver
        self.guards = DeviceGuards(device)
        self.inputs = {
            name: device.upload(array, self.guards.allocate(f"input {name}", array.shape, array.dtype))
            for name, array in inputs.items()
            if name not in signature.outputs
        }
        self.outputs = {
            name: self.guards.allocate(f"output {name}", spec.shape, spec.type)
            for name, spec in signature.outputs.items()
        }
        self.restored = {**self.inputs, **{name: self.outputs[name] for name in inputs if name in self.outputs}}
        """Arrays that need contents before an execution: the inputs, and the outputs that are updated in place."""
        self._restore(inputs)
        self.scratch = self.guards.allocate("scratch", (max(scratch_bytes, 1),), "uint8")
        if options.cupti:
            device.timer.use_cupti()
        self._transfers = Transfers(device, options.pinned)
        device.stream.synchronize()
        self._checksums: list[dict[str, int]] = []
        self._sets: list[InputSet] = [InputSet(inputs)]
        self._refill: DeviceRefill | None = None
        self._comparison: DeviceComparison | None = None
        self._in_place = 0

    def prepare(
        self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = ""
    ) -> CudaRunnable:
        """Build and bind; `text` is the variant's source with its includes expanded."""
        binder = Binder(self.device, self.signature, self.inputs, self.outputs, self.scratch, self.options.graph)
        if program is None:
            return binder.bind_call(variant, problem, tunables)
        return binder.bind_program(variant, program, text)

    def poison(self, runnable: CudaRunnable, byte: int = POISON_BYTE) -> None:
        """Overwrite outputs and scratch."""
        with self.device.errors("poison the buffers"):
            for array in self._overwritten():
                call(
                    self.driver.cuMemsetD8Async(array.data.ptr, byte, array.nbytes, self.device.stream.ptr),
                    "poison a buffer",
                )
            self._restore(self._sets[self._in_place].inputs)
            for put in runnable.before:
                put(self.device.stream.ptr)
            self.device.stream.synchronize()

    def spoil(self, runnable: CudaRunnable, share: float, byte: int) -> None:
        """Overwrite one element of each result."""
        with self.device.errors("spoil the results"):
            for pointer, spec in runnable.results.values():
                size = spec.type.itemsize
                address = pointer + int(share * (spec.nbytes // size)) * size
                if spec.nbytes:
                    call(self.driver.cuMemsetD8Async(address, byte, size, self.device.stream.ptr), "spoil a result")
            self.device.stream.synchronize()

    def _restore(self, contents: Arrays) -> None:
        """Rewrite the arrays that are updated in place."""
        for name in self.restored.keys() & self.outputs:
            self.device.upload(np.asarray(contents[name]), self.outputs[name])

    def _overwritten(self) -> list[Any]:
        """Return what holds a byte before an execution."""
        return [*(array for name, array in self.outputs.items() if name not in self.restored), self.scratch]

    def repeat(self, runnable: CudaRunnable, count: int) -> None:
        """Execute back to back and wait; the driver makes the host wait where its queue is full."""
        with self.device.errors("execute"):
            for _ in range(count):
                runnable.enqueue()
            self.device.stream.synchronize()

    def watch_inputs(self) -> None:
        """Record the content of the inputs, and of each further set."""
        sets = self._refill.contents if self._refill else []
        self._checksums = [
            self._checksums_of({name: each[name] for name in self.inputs}) for each in sets or [self.inputs]
        ]

    def stock(self, sets: Sequence[InputSet]) -> int:
        """Keep the contents of the sets on the device, with each reference that can be compared there."""
        self._sets, self._comparison = list(sets), None
        is_in_place = len(self.restored) > len(self.inputs)
        if self.options.flush == "none" and not is_in_place:
            return 0  # writing the inputs would warm the caches
        with self.device.errors("keep sets of inputs"):
            contents = [each.inputs for each in sets]
            self._restore(contents[0])
            try:
                address = self.device.timer.draw_address
                self._refill = DeviceRefill(self.device, self.restored, self._overwritten(), contents, address)
            except self.device.cupy.cuda.memory.OutOfMemoryError:
                self._refill = None
            found = self._refill.count if self._refill else 0
            if is_in_place and not found:
                raise DeviceMemoryError(
                    "copy what is worked on in place", f"{len(sets)} sets asked for, no room for one"
                )
            return found

    def restock(self, number: int, inputs: Arrays) -> None:
        """Keep other contents as the set of this number."""
        assert self._refill is not None
        with self.device.errors("keep a set of inputs"):
            self._refill.replace(number, inputs)
            self._sets[number] = InputSet(inputs)
            self._transfers.forget(number)
            contents = self._refill.contents[number]
            self._checksums[number] = self._checksums_of({name: contents[name] for name in self.inputs})

    def expect(self, runnable: CudaRunnable, tolerances: Sequence[Tolerances | None]) -> bool:
        """Compare the results on the device where their types allow it and its memory suffices."""
        if runnable.reduced:
            return False
        with self.device.errors("compare the results"):
            try:
                comparison = self._compared_with()
                if comparison is None:
                    return False
                address = self.device.timer.draw_address
                runnable.verification = comparison.verification(runnable.results, tolerances, address)
            except self.device.cupy.cuda.memory.OutOfMemoryError:
                return False
        return True

    def tally(self, runnable: CudaRunnable) -> Tally:
        """Return the device's counts."""
        with self.device.errors("compare the results"):
            return runnable.verification.read() if runnable.verification else Tally()

    def execute(self, runnable: CudaRunnable, *draws: Draw) -> None:
        """Execute once as each draw says, and wait."""
        with self.device.errors("execute"):
            arounds = [self._around(runnable, draw, timed=False) for draw in draws]
            self.device.timer.compare(runnable.enqueue, arounds)

    def put_back(self, *, settings: bool = True) -> bool:
        """Make the device current again, with the limits, cache configuration and L2 cache it had."""
        super().put_back()
        return self.device.put_back(settings=settings)

    def wait(self) -> None:
        """Wait for all streams of the context, and for work that a thread may still launch."""
        with self.device.errors("wait for the device"):
            super().wait()
            call((*self.driver.cuCtxSynchronize(),), "wait for the device")

    def find_outside(self, runnable: CudaRunnable) -> str:
        """Execute once under CUPTI's records, where that is installed."""
        with self.device.errors("execute"):
            blocking = self.options.blocking and runnable.holds_back
            timer, synchronize = self.device.timer, self.driver.cuCtxSynchronize

            def execute() -> None:  # nothing is drawn where there are no records, and so no execution
                timer.cold(runnable.enqueue, "clean", blocking, self._around(runnable, FIRST_INPUTS))

            def wait() -> None:
                time.sleep(LATE_S)
                call((*synchronize(),), "wait for the device")

            return find_outside(execute, wait)

    def _around(self, runnable: CudaRunnable, draw: Draw, *, timed: bool = True) -> Surroundings:
        """Return the work around the next execution, and record which inputs it gets."""
        if self._refill is None:
            return Surroundings(draw.inputs, runnable.before)
        if self._refill.count:
            self._in_place = draw.inputs
        found = runnable.verification if draw.compare else None
        after: list[Callable[[int], object]] = []
        if found is not None:
            if deliver := runnable.deliver:
                after.append(lambda _: deliver())
            after += [*(found.glances if timed else ()), *found.launches]
        before: tuple[Callable[[int], object], ...] = (self._refill, *runnable.before)
        return Surroundings(draw.inputs | draw.fill << 16, before, tuple(after))

    def _compared_with(self) -> DeviceComparison | None:
        """Return the references on the device, copied there at first use; None if the device cannot compare them."""
        if self._comparison is None:
            references = [each.reference for each in self._sets]
            if references[0] is None or not all(
                reference is None or DeviceComparison.fits(self.signature.outputs, reference)
                for reference in references
            ):
                return None
            self._comparison = DeviceComparison(self.device, references)
        return self._comparison

    def check_in_place(self, runnable: CudaRunnable, tolerance: Tolerances, seed: int) -> Check | None:
        """Return the passed check where the device finds everything right; None leaves the verdict to the host."""
        self._bring(runnable)
        if runnable.reduced:
            return None
        with self.device.errors("compare the results"):
            try:
                comparison = self._compared_with()
                return comparison.check(runnable.results, tolerance, seed) if comparison else None
            except self.device.cupy.cuda.memory.OutOfMemoryError:
                return None

    def _bring(self, runnable: CudaRunnable) -> None:
        """Copy the last execution's returned results into the outputs, and wait."""
        if runnable.deliver:
            with self.device.errors("copy the results"):
                runnable.deliver()
                self.device.stream.synchronize()

    def damaged_inputs(self) -> tuple[str, ...]:
        """Return the inputs that were overwritten since they were written, by checksums taken on the device."""
        if not self._checksums:
            return ()
        known, found = self._checksums[self._in_place], self._checksums_of(self.inputs)
        return tuple(name for name in known if known[name] != found[name])

    def overrun_arrays(self) -> tuple[str, ...]:
        """Return the arrays with damage next to them ("input x", "output y", "scratch")."""
        with self.device.errors("read the guards"):
            return self.guards.find_damaged()

    def restore_inputs(self, inputs: Arrays) -> None:
        """Copy the inputs to the device again, and rewrite all guard bytes."""
        for name, array in inputs.items():
            self.device.upload(array, self.restored[name])
        self._in_place = 0
        self.guards.mend()

    def _checksums_of(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        with self.device.errors("take checksums of the inputs"):
            areas = [(array.data.ptr, array.nbytes) for array in arrays.values()]
            return dict(zip(arrays, self.device.kernels.checksums(areas), strict=True))

    def checksum(self, runnable: CudaRunnable) -> tuple[int, ...]:
        """Return checksums of the results on the device."""
        self._bring(runnable)
        with self.device.errors("take checksums of the results"):
            areas = [(address, spec.nbytes) for address, spec in runnable.results.values()]
            return tuple(self.device.kernels.checksums(areas))

    def fetch(self, runnable: CudaRunnable) -> dict[str, np.ndarray]:
        """Copy the outputs to new host arrays."""
        self._bring(runnable)
        found = {}
        for name, (address, spec) in runnable.results.items():
            host = np.empty(spec.shape, spec.type)
            call(self.driver.cuMemcpyDtoH(host.ctypes.data, address, host.nbytes), f"fetch output {name}")
            own = runnable.reduced.get(name)
            found[name] = own.put_together(host, self.signature.outputs[name].shape) if own else host
        return found

    def begin(self, runnable: CudaRunnable, measure: Measure, batch: int = 1, draw: Draws = first_draw) -> Frame:
        """Execute and time; see `CudaTimer` for each measure."""
        timer, flush, enqueue = self.device.timer, self.options.flush, runnable.enqueue
        blocking = self.options.blocking and runnable.holds_back
        with self.device.errors("execute"):
            if measure is Measure.TOTAL:
                drawn = draw()
                around = self._around(runnable, drawn)
                uploads = self._transfers.uploads(drawn.inputs, self._sets[drawn.inputs].inputs, self.restored)
                downloads = self._transfers.downloads(runnable.results)
                return Frame.ended(timer.total(uploads, enqueue, downloads, around))
            if measure is Measure.HOT:
                reading = timer.hot(enqueue, batch, blocking, self._around(runnable, draw()))
            elif batch > 1:
                reading = timer.cold_over_phases(
                    enqueue, runnable.launches, flush, blocking, lambda: self._around(runnable, draw())
                )
            else:
                reading = timer.cold(enqueue, flush, blocking, self._around(runnable, draw()))
        if blocking:  # other variants are read in between, so each keeps a count of its own
            runnable.expired_in_a_row = runnable.expired_in_a_row + 1 if reading.suspect else 0
            runnable.holds_back = runnable.expired_in_a_row < 2 and not runnable.always_waits
        return Frame.ended(reading)

    def tick_ns(self, measure: Measure) -> float:
        """Return the step of event times; total time is the host's."""
        return 0.0 if measure is Measure.TOTAL else self.device.timer.calibration.tick_ns

    def close(self) -> None:
        """Free the session's device and page-locked memory."""
        self.inputs, self.outputs, self.restored, self.scratch = {}, {}, {}, self.device.cupy.empty(1, "u1")
        self._transfers = Transfers(self.device, self.options.pinned)
        self._refill = self._comparison = None
        self.device.cupy.get_default_memory_pool().free_all_blocks()
        self.device.cupy.get_default_pinned_memory_pool().free_all_blocks()
