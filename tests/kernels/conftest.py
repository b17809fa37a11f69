"""Compile the kernels of the bundled families without a GPU, and list what the compiler said of them.

`pytest tests/kernels -v` ends with a table: registers, shared memory and spills of every compiled kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cuprof.builds import Built
from cuprof.builds.nvrtc import NvrtcBuild, load_nvrtc
from cuprof.core.errors import MissingDependencyError
from cuprof.core.point import Coordinate
from cuprof.families import Family, Point
from cuprof.families.origin import load_family
from cuprof.families.sources import expand_includes

KERNELS = Path(__file__).parents[2] / "kernels"
FACTS = "compiled kernel"

CompileVariant = Callable[..., Built]


@pytest.fixture(scope="session")
def bundled_family() -> Callable[[str], Family]:
    """Return a bundled family by name."""
    return lambda name: load_family(KERNELS / name)


@pytest.fixture
def compile_variant(record_property: Callable[[str, object], None]) -> CompileVariant:
    """Return (family, variant name, problem, tunables, arch) → Built; tunables left out take their default."""
    try:
        load_nvrtc()
    except MissingDependencyError as error:
        pytest.skip(str(error))

    def compile_one(
        family: Family, name: str, problem: Point, tunables: Mapping[str, Coordinate], arch: str = "sm_90"
    ) -> Built:
        variant = family.variant(name)
        assert family.folder is not None
        assert variant.source is not None
        tune = Point({**{tunable.name: tunable.default for tunable in variant.tunables}, **tunables})
        program = variant.make(problem, tune)
        cubin = NvrtcBuild(
            expand_includes(family.folder / variant.source, family.folder),
            name=variant.source,
            arch=arch,
            defines=program.defines,
            options=program.options,
        ).run()
        assert {launch.kernel for launch in program.launches} <= set(cubin.kernels)
        for kernel, facts in cubin.kernels.items():
            record_property(
                FACTS,
                f"{family.name:<12} {kernel:<24} {arch:<7} {problem.label:<28} {tune.label:<32} "
                f"{facts.registers:>4} {facts.shared_bytes:>7} {facts.spill_bytes:>6}",
            )
        return cubin

    return compile_one


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table when -v asks for it."""
    if terminalreporter.verbosity < 1:
        return
    passed = terminalreporter.getreports("passed")
    lines = [value for report in passed for name, value in report.user_properties if name == FACTS]
    if lines:
        terminalreporter.section("compiled kernels")
        header = f"{'family':<12} {'kernel':<24} {'arch':<7} {'problem':<28} {'tunables':<32} regs  shared spills"
        terminalreporter.write_line(header)
        for line in dict.fromkeys(map(str, lines)):
            terminalreporter.write_line(line)
