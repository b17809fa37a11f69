"""One variant of the family `tricks` on arrays of its own, as the tools that know nothing of cuprof are given it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.trick_records import FAMILY
from cuprof.families import Family, Point, Program, Variant
from cuprof.families.origin import load_family
from cuprof.worker.compare import compare


def make_parser() -> argparse.ArgumentParser:
    """Return a parser with the variant and its problem."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", required=True)
    parser.add_argument("--n", type=int, required=True)
    return parser


@dataclass(frozen=True)
class Case:
    """One variant at one problem, with inputs drawn anew and what is right for them.

    Args:
        inputs: on the host.
        expected: on the host, float64.
    """

    family: Family
    variant: Variant
    problem: Point
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Case:
        """Return what the command line asks for."""
        family = load_family(FAMILY)
        problem = Point(n=arguments.n)
        inputs = dict(family.generate(problem, np.random.default_rng()))
        return cls(family, family.variant(arguments.variant), problem, inputs, dict(family.reference(problem, inputs)))

    @property
    def program(self) -> Program:
        """Return what a variant in CUDA C++ launches."""
        program: Program = self.variant.make(self.problem, Point())
        return program

    def is_right(self, outputs: dict[str, np.ndarray]) -> bool:
        """Return whether outputs on the host are right."""
        tolerance = self.family.tolerance(self.problem, self.inputs, self.expected)
        return compare(outputs, self.expected, tolerance).passed

    def put_on_device(self) -> tuple[Callable[[], object], Callable[[], dict[str, np.ndarray]]]:
        """Return what executes the variant once on PyTorch's current stream, and what takes its result away."""
        import torch

        from benchmarks.tools.device import Device

        device = Device()
        cupy = device.backend.device.cupy
        torch.cuda.init()
        # Whoever times a function of Python with another tool has no stream of cuprof's: the default stream it is.
        cupy.cuda.Stream.null.use()
        arrays: dict[str, Any] = {name: cupy.asarray(array) for name, array in self.inputs.items()}
        outputs = {name: cupy.empty(array.shape, cupy.float32) for name, array in self.expected.items()}

        def fetch() -> dict[str, np.ndarray]:
            torch.cuda.synchronize()
            return {name: array.get() for name, array in outputs.items()}

        if self.variant.kind != "kernel":
            return self.variant.make(self.problem, Point(), arrays, outputs), fetch
        program, source = self.program, FAMILY / str(self.variant.source)
        scratch = {name: cupy.zeros(each.shape, each.dtype) for name, each in program.scratch.items()}
        buffers = {**arrays, **outputs, **scratch}
        for output, buffer in program.results.items():
            outputs[output] = buffers[buffer]
        module = device.load(source, program.defines)
        launches = [device.bind(module, launch, buffers) for launch in program.launches]

        def run() -> None:
            for launch in launches:
                launch(0)

        return run, fetch
