"""A family of tricks, each beside honest variants: what cuprof says, and what other tools say of the same trick.

    python -m benchmarks.tricks --out FOLDER
    python -m benchmarks.tricks --cpu             # without a GPU: the tricks on the CPU and in OpenCL, cuprof alone

The honest variants that look like tricks are swept first: they give the true times, and none may be accused. Then
tricks are swept beside the honest baseline and a probe that is slow where somebody has left settings changed: those
that can do nothing to others together, each other one in a process of its own.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.gpu import require_gpu
from benchmarks.process import ask
from benchmarks.table import make_parser, report, start
from benchmarks.trick_records import BASELINES, HONEST, OK, TRUE_SHARE, Shown, Trick, load_records
from benchmarks.trick_sweeps import Bench, Judgement, SweepFailedError
from cuprof.families.origin import load_family

COLUMNS = (
    "variant", "kind", "level", "expected", "cuprof", "cuprof µs", "true µs", "beside", "right", "do_bench",
    "do_bench µs", "kernel tuner", "tuner µs",
)  # fmt: skip
LONGEST_EXPECTED = 40
TOOLS = {"do_bench": ("benchmarks.tools.trick_triton", "do_bench µs"),
         "kernel tuner": ("benchmarks.tools.trick_kernel_tuner", "tuner µs")}  # fmt: skip
HONEST_KIND = "honest"
HOARDS = ("memory_hoarded",)
"""Tricks that leave no memory of the device to sweeps beside theirs: they go last, one at a time."""
BELIEVED, REFUSED, NO_RESULT = "believed", "refused", "no result"


def make_row(judged: Judgement) -> dict[str, Any]:
    """Return the table's row for one trick, without the other tools' columns."""
    expected = " or ".join(judged.trick.expected)
    return {
        "variant": judged.trick.variant,
        "kind": judged.trick.kind,
        "level": judged.trick.level,
        "expected": "no rank, or true" if len(expected) > LONGEST_EXPECTED else expected,
        "cuprof": judged.ending,
        "cuprof µs": to_us(judged.shown.median_ns),
        "true µs": to_us(judged.honest_ns),
        "beside": "; ".join(judged.unsound) or "sound",
        "right": judged.is_caught,
        "message": judged.shown.message,
        "caught_by": judged.trick.caught_by,
    }


def make_honest_row(name: str, shown: Shown) -> dict[str, Any]:
    """Return the table's row for one honest variant; one whose library is missing is neither right nor wrong."""
    return {
        "variant": name,
        "kind": HONEST_KIND,
        "expected": OK,
        "cuprof": shown.state,
        "cuprof µs": to_us(shown.median_ns),
        "right": None if shown.state == "skipped" else shown.state == OK and bool(shown.median_ns),
        "message": shown.message,
    }


def to_us(duration_ns: float | None) -> float | None:
    """Return nanoseconds as microseconds."""
    return None if duration_ns is None else duration_ns * 1e-3


def judge_all(bench: Bench, tricks: Sequence[Trick], jobs: int = 1) -> Iterator[dict[str, Any]]:
    """Yield a row for each honest variant, then for each trick, as it is known.

    Args:
        jobs: so many sweeps at a time; what they time on the device takes turns.
    """
    alone: dict[int, dict[str, Shown]] = {bench.n: bench.sweep_honest()}
    for name in HONEST[bench.backend]:
        yield make_honest_row(name, alone[bench.n].get(name, Shown("planned", message="never ran")))
    for n in {trick.n for trick in tricks if trick.n} - {bench.n}:
        alone[n] = bench.sweep(bench.company, n)

    def judge_group(group: Sequence[Trick]) -> list[dict[str, Any]]:
        try:
            return [make_row(judged) for judged in bench.judge(group, alone[group[0].n or bench.n])]
        except SweepFailedError as error:
            failed = {"cuprof": "no rows", "right": False, "message": str(error)}
            return [{"variant": trick.variant, "kind": trick.kind, **failed} for trick in group]

    groups = group_tricks(tricks)
    hoards = [group for group in groups if group[0].variant in HOARDS]
    with ThreadPoolExecutor(jobs) as pool:
        judging = [pool.submit(judge_group, group) for group in groups if group not in hoards]
        for judged in as_completed(judging):
            yield from judged.result()
    for group in hoards:
        yield from judge_group(group)


def group_tricks(tricks: Sequence[Trick]) -> list[list[Trick]]:
    """Return tricks as they are swept: those that touch their own result alone together, others singly."""
    together: dict[int | None, list[Trick]] = {}
    alone = []
    for trick in tricks:
        if trick.is_harmless:
            together.setdefault(trick.n, []).append(trick)
        else:
            alone.append([trick])
    return [*together.values(), *alone]


class OtherTools:
    """Time single variants by other tools, each in a process of its own.

    Args:
        work: folder for answers and logs.
        names: which of `TOOLS`.
        kernels: the variants in CUDA C++ that are one launch: all that Kernel Tuner can be given.
    """

    def __init__(self, work: Path, names: Sequence[str], kernels: Sequence[str]) -> None:
        self.work, self.names, self.kernels = work, names, kernels
        self._honest_ns: dict[tuple[str, int], float | None] = {}

    def columns(self, variant: str, n: int) -> dict[str, Any]:
        """Return the tools' columns for a variant: whether each believed it, and what it shows."""
        found: dict[str, Any] = {}
        for name in self.names:
            module, column = TOOLS[name]
            if name == "kernel tuner" and variant not in self.kernels:
                continue
            honest_ns = self._get_honest_ns(name, n)
            if honest_ns is None:
                continue
            answered = self._ask(module, variant, n)
            median_ns = answered.get("median_ns")
            found[column] = to_us(median_ns)
            if answered.get("fault"):
                found[name] = NO_RESULT
            elif not answered.get("right"):
                found[name] = REFUSED
            else:
                believed = median_ns is None or median_ns < TRUE_SHARE["cuda"] * honest_ns
                found[name] = BELIEVED if believed else "timed in full"
        return found

    def prepare(self, problems: Iterable[int]) -> None:
        """Time the honest baseline at each problem, with nothing beside it."""
        for n in problems:
            for name in self.names:
                self._get_honest_ns(name, n)

    def _get_honest_ns(self, name: str, n: int) -> float | None:
        if (name, n) not in self._honest_ns:
            answered = self._ask(TOOLS[name][0], BASELINES["cuda"], n)
            self._honest_ns[name, n] = answered.get("median_ns")
            if answered.get("fault"):
                print(f"{name}: no result: {answered['fault']}", file=sys.stderr)
        return self._honest_ns[name, n]

    def _ask(self, module: str, variant: str, n: int) -> dict[str, Any]:
        answered = ask(module, self.work / variant, "--variant", variant, "--n", str(n), limit_s=60)
        return {**answered.found, **({"fault": answered.fault} if answered.fault else {})}


def make_criteria(rows: Sequence[Mapping[str, Any]]) -> dict[str, bool | None]:
    """Return what is asked of the rows, and whether it holds."""
    honest = [row for row in rows if row["kind"] == HONEST_KIND and row["right"] is not None]
    tricks = [row for row in rows if row["kind"] != HONEST_KIND]
    believed = [row["variant"] for row in tricks if not row["right"]]
    accused = [row["variant"] for row in honest if not row["right"]]
    kinds = len({row["kind"] for row in tricks})
    return {
        f"{len(tricks) - len(believed)} of {len(tricks)} tricks ({kinds} kinds) get no rank, no false time and do "
        "nothing to those beside": not believed if tricks else None,
        f"{len(accused)} of {len(honest)} honest variants are accused": not accused if honest else None,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Sweep, print and keep; return 0 where no trick is believed and no honest variant accused."""
    parser = make_parser("a family of tricks, and honest variants that look like them")
    parser.add_argument("--cpu", action="store_true", help="the tricks that need no GPU; cuprof alone")
    parser.add_argument("--only", nargs="+", default=[], metavar="VARIANT", help="of the tricks only these")
    parser.add_argument("--tools", nargs="*", choices=list(TOOLS), default=list(TOOLS), help="(default: all)")
    parser.add_argument("--tools-only", action="store_true", help="leave cuprof's own columns out")
    parser.add_argument("--n", type=int, help="how many numbers (default: 2**24, with --cpu 2**18)")
    parser.add_argument("--jobs", type=int, default=1, help="sweeps, or other tools, at a time (default: 1)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="further settings of every sweep")
    arguments = parser.parse_args(argv)
    if not arguments.cpu:
        require_gpu()
    backends = ("cpu", "opencl") if arguments.cpu else ("cuda",)
    n = arguments.n or (2**18 if arguments.cpu else 2**24)
    records = load_records(*backends)
    known = {trick.variant: trick for tricks in records.values() for trick in tricks}
    if unknown := set(arguments.only) - set(known):
        parser.error(f"no trick of {' or '.join(backends)}: {', '.join(sorted(unknown))}")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="cuprof-tricks-") as folder:
        others = OtherTools(Path(folder), () if arguments.cpu else arguments.tools, list_kernels())
        for backend in backends:
            chosen = [each for each in records[backend] if not arguments.only or each.variant in arguments.only]
            bench = Bench(backend, n, settings=tuple(arguments.set))
            if arguments.tools_only:
                rows += [{"variant": each.variant, "kind": each.kind} for each in chosen]
                continue
            for row in judge_all(bench, chosen, arguments.jobs):
                rows.append(row)
                mark = {True: "right", False: "NOT RIGHT", None: "left out"}[row["right"]]
                beside = f" ({row.get('message')}); beside it: {row['beside']}" if row["right"] is False else ""
                print(f"{row['variant']}: {row['cuprof']}, {mark}{beside}", file=sys.stderr, flush=True)
        problems = [(row["variant"], getattr(known.get(row["variant"]), "n", None) or n) for row in rows]
        others.prepare({n for _, n in problems})
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for row, columns in zip(rows, pool.map(lambda each: others.columns(*each), problems), strict=True):
                row |= columns
    print(f"believed by other tools: {count_believed(rows) or 'not asked'}")
    return report("tricks", COLUMNS, rows, arguments.out, {} if arguments.tools_only else make_criteria(rows))


def list_kernels() -> list[str]:
    """Return the variants in CUDA C++ of a single launch."""
    from benchmarks.trick_records import FAMILY
    from cuprof.families import Point

    variants = load_family(FAMILY).variants.values()
    kernels = [each for each in variants if each.backend == "cuda" and each.kind == "kernel"]
    return [each.name for each in kernels if len(each.make(Point(n=2**20), Point()).steps) == 1]


def count_believed(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return, for each tool that was asked, how many of the tricks it was given it believed."""
    told = []
    for name in TOOLS:
        found = [row[name] for row in rows if row["kind"] != HONEST_KIND and row.get(name) not in (None, NO_RESULT)]
        told += [f"{name} {found.count(BELIEVED)} of {len(found)}"] if found else []
    return ", ".join(told)


if __name__ == "__main__":
    sys.exit(start(main))
