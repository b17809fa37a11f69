"""The benchmarks' project with one of its families made wide: some 4,000 configurations to run or to search."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import Answer, run
from cuprof.core.point import Point

ALWAYS = ("measure.modes=[cold]", "measure.energy=false", "report=none")
RESTRICTION = """

from dataclasses import replace

CHOSEN = {chosen}


def explain_unchosen(problem, tune):
    return None if any(one.items() <= tune.items() for one in CHOSEN) else "not among those measured side by side"


for one in [each for each in family.variants.values() if each.tunables]:
    family.variants[one.name] = replace(one, constraint=explain_unchosen)
"""
"""The end of a copied family.py; a constraint in whose place it comes has let pass what was run, and so all chosen."""


@dataclass(frozen=True)
class Case:
    """A family of the benchmarks' project, made wide.

    Args:
        tunables: all of whose values are tried.
        edits: file → text in it → what takes its place.
    """

    tunables: tuple[str, ...]
    settings: tuple[str, ...]
    edits: Mapping[str, Mapping[str, str]]


CASES = {
    "axpy": Case(
        ("block", "per_thread"),
        ("problem.n=2**22",),
        {
            "family.py": {
                "BLOCKS = (32, 64, 128, 256, 512, 1024)": "BLOCKS = tuple(range(32, 1025, 32))",
                "PER_THREAD = (1, 2, 4, 8, 16, 32, 64, 128)": "PER_THREAD = tuple(range(1, 129))",
            }
        },
    ),
    "convolution": Case(
        ("block_x", "block_y", "tile_x", "tile_y", "shared", "padding", "read_only", "unroll"),
        ("problem.n=1024",),
        {
            "family.py": {
                '"block_x", (8, 16, 32, 64, 128)': '"block_x", (8, 16, 32, 64, 128, 256)',
                '"block_y", (1, 2, 4, 8, 16)': '"block_y", (1, 2, 4, 8, 16, 32)',
                '"tile_x", (1, 2, 4)': '"tile_x", (1, 2, 4, 8)',
                '"tile_y", (1, 2, 4)': '"tile_y", (1, 2, 4, 8)',
            }
        },
    ),
    "triton_matmul": Case(
        ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages"),
        ("problem.n=1024", "variants=every"),
        {
            "matmul.py": {
                "for m in (64, 128)": "for m in (16, 32, 64, 128)",
                "for n in (64, 128, 256)": "for n in (16, 32, 64, 128)",
                "for k in (32, 64)": "for k in (16, 32, 64, 128)",
                # with more than 256 sums a thread one source may be compiled for minutes
                "for warps in (4, 8)": "for warps in (1, 2, 4, 8) if m * n <= 8192 * warps",
                "for stages in (3, 4)": "for stages in range(1, 9)\n    for group in (4, 8)",
                "CONFIGS.append(": "(",
                '"BLOCK_K": k}': '"BLOCK_K": k, "GROUP_M": group}',
                "BLOCK_K: tl.constexpr)": "BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr)",
                "group = 8 *": "group = GROUP_M *",
                "// group * 8": "// group * GROUP_M",
                "- first, 8)": "- first, GROUP_M)",
            }
        },
    ),
}


@dataclass(frozen=True)
class Project:
    """A copy of the benchmarks' project, and the folder of its databases; caches and logs are beside the copy."""

    family: str
    folder: Path
    databases: Path

    @property
    def case(self) -> Case:
        """Return how the family is made wide."""
        return CASES[self.family]

    @property
    def code(self) -> Path:
        """Return the folder of the family."""
        return self.folder / "kernels" / self.family

    def widen(self) -> None:
        """Give the family all of its case's values."""
        for file, edits in self.case.edits.items():
            text = (self.code / file).read_text()
            for old, new in edits.items():
                text = text.replace(old, new)
            (self.code / file).write_text(text)

    def restrict(self, chosen: Sequence[Point]) -> None:
        """Leave the family nothing but these configurations."""
        with (self.code / "family.py").open("a") as file:
            file.write(RESTRICTION.format(chosen=[dict(each) for each in chosen]))

    def locate(self, sweep: str) -> str:
        """Return the URL of a sweep's database."""
        return f"sqlite:///{self.databases.resolve() / sweep}.sqlite"

    def sweep(self, name: str, *settings: str) -> Answer:
        """Run a sweep of all configurations, or a search, with a database and caches of its own."""
        work = self.folder.parent
        caches = {"CUPROF_CACHE": str(work / f"{name}.cubin"), "TRITON_CACHE_DIR": str(work / f"{name}.triton")}
        selection = (f"family={self.family}", *self.case.settings, *(f"tune.{one}=all" for one in self.case.tunables))
        command = [sys.executable, "-m", "cuprof", "sweep", *selection, *ALWAYS, *settings]
        command.append(f"store.url={self.locate(name)}")
        return run(command, work, folder=self.folder, environment=caches, limit_s=900, accept=(0, 1))
