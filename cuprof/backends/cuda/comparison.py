"""Compare outputs with the reference on the device, where a pass over them costs microseconds.

The device can only say that everything is right, and with what margin. Outputs that it cannot pass are fetched and
judged by `cuprof.worker.compare.compare`, so there is one definition of wrong.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from cuprof.backends.contract import Tally
from cuprof.backends.cuda.device import CudaDevice
from cuprof.core.records import Check
from cuprof.families import Array, Arrays, Tolerance, Tolerances

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
}
"""Types whose every value fits a double exactly; outputs of other types are compared on the host."""
SMALL_TYPES = frozenset({"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"})
"""Further output types, which compare_kernel.cu defines."""
FOUND = struct.Struct("<QddQdd")
TALLY = struct.Struct("<QIIQQ")
STANDARD = np.dtype(
    [("expected", "<u8"), ("absolute", "<u8"), ("one_absolute", "<f8"), ("relative", "<f8"), ("count", "<u8")]
)
THREADS = 256
BLOCKS_A_MULTIPROCESSOR = 8
GLANCE_BLOCKS = 4
"""Compare this many blocks of `THREADS` elements first."""

Results = Mapping[str, tuple[int, Array]]
"""Output name → device address and its array."""


class DeviceComparison:
    """Hold a problem's reference results on the device, one for each set of inputs.

    Args:
        references: floats or integers by output name, one for each set.
    """

    def __init__(self, device: CudaDevice, references: Sequence[Arrays]) -> None:
        self.device = device
        self._types = {name: _common_type([each[name] for each in references]) for name in references[0]}
        self._expected = [
            {name: self._upload(array, self._types[name], array.shape) for name, array in reference.items()}
            for reference in references
        ]
        self._bounds: list[tuple[Tolerance, tuple[object, ...], Any]] = []
        self._found = device.cupy.zeros(FOUND.size, np.uint8)

    @staticmethod
    def fits(outputs: Mapping[str, Array], reference: Arrays) -> bool:
        """Return whether the device can compare these: known types, and a reference that doubles hold exactly."""
        return set(outputs) == set(reference) and all(
            (outputs[name].dtype in C_TYPES or outputs[name].dtype in SMALL_TYPES)
            and array.dtype.kind in "fiu"
            and array.size > 0
            for name, array in reference.items()
        )

    def check(self, results: Results, tolerances: Tolerances, seed: int) -> Check | None:
        """Return the passed check against the first set, or None where some element is not within tolerance."""
        worst: Check | None = None
        for name, (address, spec) in results.items():
            found = self._compare(name, address, spec, Tolerance.of(tolerances, name), seed)
            if found is None:
                return None
            if worst is None or found.error >= worst.error:
                worst = found
        return worst

    def _compare(self, name: str, address: int, spec: Array, tolerance: Tolerance, seed: int) -> Check | None:
        expected, bound = self._expected[0][name], _common_type([tolerance.absolute])
        absolute, one = self._bound(tolerance, expected.shape, bound)
        self._found.fill(0)
        given = [
            address, expected.data.ptr, absolute, np.float64(one), np.float64(tolerance.relative),
            np.uint64(expected.size), self._found.data.ptr,
        ]  # fmt: skip
        self._launch("compare", name, spec, bound, given)()
        failing, error, distance, examined, squared, squared_expected = FOUND.unpack(self._found.get().tobytes())
        if failing or examined != expected.size or not math.isfinite(squared + squared_expected):
            return None
        relative = math.sqrt(squared / squared_expected) if squared_expected else math.inf if squared else 0.0
        return Check(True, error, distance, relative, "", seed)

    def verification(self, results: Results, tolerances: Sequence[Tolerances], draw_address: int) -> DeviceVerification:
        """Return a comparison of results with the drawn set, without the host.

        Args:
            tolerances: the tolerances of the results, for each set.
            draw_address: device address of the drawn set's number.
        """
        made = DeviceVerification(self.device, self.device.cupy.zeros(TALLY.size, np.uint8))
        for place, (name, (address, spec)) in enumerate(results.items()):
            own = [Tolerance.of(each, name) for each in tolerances]
            bound = _common_type([each.absolute for each in own if np.ndim(each.absolute)])
            standards = np.zeros(len(self._expected), STANDARD)
            for number, (expected, tolerance) in enumerate(zip(self._expected, own, strict=True)):
                right = expected[name]
                absolute, one = self._bound(tolerance, right.shape, bound)
                standards[number] = (right.data.ptr, absolute, one, tolerance.relative, right.size)
            table = self.device.upload(standards.view(np.uint8))
            common, is_last = [address, table.data.ptr, draw_address], np.uint32(place == len(results) - 1)
            tally = made.tally.data.ptr
            made.glances.append(self._launch("glance", name, spec, bound, [*common, tally], table, GLANCE_BLOCKS))
            made.launches.append(self._launch("verify", name, spec, bound, [*common, is_last, tally], table))
        return made

    def _bound(self, tolerance: Tolerance, shape: tuple[int, ...], kind: str) -> tuple[int, float]:
        """Return the address of a tolerance's bounds of an output's elements, or 0 and its one bound."""
        if not np.ndim(tolerance.absolute):
            return 0, float(tolerance.absolute)
        # Comparing large ones takes a tenth of a second: the same tolerance is found first.
        for one, of, bounds in sorted(self._bounds, key=lambda each: each[0] is not tolerance):
            if of == (kind, shape) and (one is tolerance or np.array_equal(one.absolute, tolerance.absolute)):
                return int(bounds.data.ptr), 0.0
        bounds = self._upload(np.broadcast_to(tolerance.absolute, shape), kind, shape)
        self._bounds.append((tolerance, (kind, shape), bounds))
        return int(bounds.data.ptr), 0.0

    def _launch(
        self, kernel: str, output: str, spec: Array, bound: str, given: list[Any], owner: Any = None, blocks: int = 0
    ) -> Callable[[], None]:
        """Return what launches a kernel for an output's type, its reference's and its bounds'."""
        blocks = blocks or max(1, min(-(-spec.size // THREADS), BLOCKS_A_MULTIPROCESSOR * self.device.multiprocessors))
        types = {
            "OUT": C_TYPES.get(spec.dtype, spec.dtype), "REF": C_TYPES[self._types[output]], "BOUND": C_TYPES[bound],
        }  # fmt: skip
        launch = self.device.launch(
            kernel, blocks, THREADS, given, file="compare_kernel.cu", types=types, owners=[owner]
        )
        return partial(launch, self.device.stream.ptr)

    def _upload(self, array: np.ndarray, kind: str, shape: tuple[int, ...]) -> Any:
        return self.device.upload(np.ascontiguousarray(array, kind).reshape(shape))


@dataclass
class DeviceVerification:
    """Compare one runnable's results after each execution, and count on the device.

    Args:
        glances: compare some elements as soon as the frame has ended; untimed executions need none.
        launches: compare all elements.
    """

    device: CudaDevice
    tally: Any
    glances: list[Callable[[], object]] = field(default_factory=list)
    launches: list[Callable[[], object]] = field(default_factory=list)

    def read(self) -> Tally:
        """Wait for the device and return its counts."""
        with self.device.errors("compare the results"):
            return Tally(*TALLY.unpack(self.tally.get().tobytes())[-2:])


def _common_type(arrays: Sequence[Any]) -> str:
    """Return the type that all of the arrays have, or fit into where it is float16; float64 where there is none."""
    names = {str(np.asarray(array).dtype).replace("float16", "float32") for array in arrays}
    (name,) = names if len(names) == 1 else ("float64",)
    return name if name in C_TYPES else "float64"
