"""The reduction family: pass geometry, inputs and tolerance, CPU variants, compilation; on a GPU every variant."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from cuprof.families import Family, Launch, Point, Program
from cuprof.plan.program_check import check_program
from tests.kernels.often import seldom

STUDY = ("interleaved_divergent", "interleaved_compacted", "sequential", "first_add", "last_warp")
KERNELS = (*STUDY, "unrolled", "multi_add", "warp_shuffle", "vector4", "single_pass")
CPU = ("cpu_serial", "cpu_numpy", "cpu_parallel")
SIZES = (1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 1000, 4097, 2**20 - 1, 2**20, 2**20 + 1)
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100")
U = 2.0**-24

TUNED = {
    **{name: ({"block": 32}, {"block": 256}, {"block": 1024}) for name in (*STUDY, "unrolled")},
    **{
        name: ({"block": 32, "per_thread": 2}, {"block": 128, "per_thread": 128}, {"block": 1024})
        for name in ("multi_add", "warp_shuffle")
    },
    "vector4": ({"block": 32, "per_thread": 4}, {"block": 128, "per_thread": 32}, {"block": 1024}),
    "single_pass": ({"block": 32, "loads": 1}, {"block": 256, "blocks": 1056, "loads": 4}, {"block": 1024}),
}
CHOICES = [(name, tune) for name in KERNELS for tune in ({}, *TUNED[name])]
"""Every kernel with its default tunables and with others, the extremes among them."""


@pytest.fixture(scope="module")
def family(bundled_family) -> Family:
    return bundled_family("reduction")


def make(family: Family, name: str, n: int, dtype: str = "float32", **tunables: int) -> Program:
    defaults = {tunable.name: tunable.default for tunable in family.variant(name).tunables}
    return family.variant(name).make(Point(n=n, dtype=dtype), Point({**defaults, **tunables}))


def list_counts(launches: tuple[Launch, ...]) -> list[tuple[int, int, int]]:
    return [(int(launch.args[-1]), launch.grid[0], launch.block[0]) for launch in launches]


def test_variants_stand_in_the_order_of_the_study(family: Family) -> None:
    assert tuple(family.variants) == (*KERNELS, "cupy_sum", *CPU)
    assert [family.variant(name).origin for name in STUDY] == [f"kernel {number}" for number in range(1, 6)]


@pytest.mark.parametrize("name", STUDY[:3])
def test_kernels_1_to_3_make_the_published_passes(family: Family, name: str) -> None:
    passes = [(16_777_216, 262_144, 64), (262_144, 4_096, 64), (4_096, 64, 64), (64, 1, 64)]
    assert list_counts(make(family, name, 2**24).launches) == passes


@pytest.mark.parametrize("name", STUDY[3:])
def test_kernels_4_and_5_make_the_published_passes(family: Family, name: str) -> None:
    passes = [(16_777_216, 131_072, 64), (131_072, 2_048, 64), (2_048, 32, 64), (32, 1, 32)]
    launches = make(family, name, 2**24).launches
    assert list_counts(launches) == passes
    assert [launch.kernel for launch in launches] == [name, *[f"{name}_later"] * 3]


def test_published_passes_alternate_between_two_buffers(family: Family) -> None:
    program = make(family, "sequential", 2**24)
    assert [launch.args[:2] for launch in program.launches] == [("x", "a"), ("a", "b"), ("b", "a"), ("a", "b")]
    assert program.results == {"sum": "b"}
    assert {name: array.size for name, array in program.scratch.items()} == {"a": 262_144, "b": 4_096}


@pytest.mark.parametrize(("name", "tune"), CHOICES)
def test_programs_are_valid_for_any_n(family: Family, name: str, tune: dict[str, int]) -> None:
    for n in (*SIZES, 2**24, 2**30 - 1, 2**30):
        check_program(make(family, name, n, **tune), family.signature(Point(n=n, dtype="float32")), "cuda", name)


@pytest.mark.parametrize(("name", "tune"), [choice for choice in CHOICES if choice[0] != "single_pass"])
def test_passes_cover_every_number_and_leave_one(family: Family, name: str, tune: dict[str, int]) -> None:
    per_thread = {"multi_add": 32, "warp_shuffle": 32, "vector4": 16}.get(name, 1)
    per_thread = tune.get("per_thread", per_thread)
    for n in (*SIZES, 2**24, 2**30 - 1, 2**30):
        program = make(family, name, n, **tune)
        left, source = n, "x"
        for number, launch in enumerate(program.launches):
            (blocks,), (threads,), (read, written, count) = launch.grid, launch.block, launch.args
            block_takes = threads * (2 if name in ("first_add", "last_warp", "unrolled") and not number else per_thread)
            assert (read, int(count)) == (source, left)
            assert isinstance(count, np.uint32)
            assert (blocks - 1) * block_takes < left <= blocks * block_takes
            assert blocks <= program.scratch[str(written)].size
            left, source = blocks, str(written)
        assert left == 1
        assert program.results == {"sum": source}


def test_last_warp_has_shared_memory_for_lanes_that_read_past_a_short_block(family: Family) -> None:
    assert [launch.shared_bytes for launch in make(family, "last_warp", 2**24).launches] == [256] * 4
    assert make(family, "last_warp", 1000, block=128).launches[0].shared_bytes == 512


def test_single_pass_is_no_wider_than_its_input(family: Family) -> None:
    grids = {n: make(family, "single_pass", n, block=256, blocks=264).launches[0].grid for n in (1, 4096, 4100, 2**24)}
    assert grids == {1: (1,), 4096: (4,), 4100: (5,), 2**24: (264,)}


def test_single_pass_refuses_chains_beyond_the_tolerance(family: Family) -> None:
    constraint = family.variant("single_pass").constraint
    assert constraint is not None
    short = Point(block=32, blocks=132, loads=1)
    reason = constraint(Point(n=2**30, dtype="float32"), short)
    assert reason is not None
    assert "63551 float32 additions in a row" in reason
    assert constraint(Point(n=2**30, dtype="int32"), short) is None
    assert constraint(Point(n=2**30, dtype="float32"), Point(block=512, blocks=264, loads=8)) is None


@pytest.mark.parametrize("n", [1, 2, 1000, 2**20])
def test_integers_are_never_zero_and_no_partial_sum_overflows(family: Family, n: int) -> None:
    x = family.generate(Point(n=n, dtype="int32"), np.random.default_rng(7))["x"]
    assert x.dtype == np.int32
    assert x.shape == (n,)
    assert not (x == 0).any()
    assert np.abs(x.astype(np.int64)).sum() <= 2**31 - 1
    if n == 2**20:
        assert (x.min(), x.max()) == (-1000, 1000)


def test_integers_at_the_largest_n_are_small_enough_for_certain(family: Family) -> None:
    class Largest:  # the bounds that generate asks for, without 4 GiB of numbers
        def integers(self, low: int, high: int, size: int, dtype: type) -> np.ndarray:
            self.bounds = low, high
            return np.arange(low, high, dtype=dtype)

    rng = Largest()
    x = family.generate(Point(n=2**30, dtype="int32"), rng)["x"]
    assert x.tolist() == [-1, 1]
    assert max(map(abs, rng.bounds)) * 2**30 <= 2**31 - 1


def allowed(family: Family, n: int) -> float:
    return float(family.tolerance(Point(n=n, dtype="float32"), {}, {}).absolute)


def test_a_lost_number_of_mean_size_is_flagged_at_every_n(family: Family) -> None:
    for n in [2**power for power in range(31)]:
        # the result itself may lie one tolerance off, on the side of the missing number
        assert 2 * allowed(family, n) < 0.5, n
    assert allowed(family, 2**24) == pytest.approx(0.0151, rel=0.01)
    assert allowed(family, 2**30) == pytest.approx(0.121, rel=0.01)


def test_few_additions_are_allowed_their_hard_bound(family: Family) -> None:
    for n in range(1, 6):
        assert allowed(family, n) >= U * sum(range(2, n + 1)), n


@pytest.mark.parametrize(("n", "chain"), [(2**12, 2**10), (2**16, 2**10), (2**16, 2**4)])
def test_the_error_of_float32_sums_follows_the_model(family: Family, n: int, chain: int) -> None:
    """Chains of float32 additions under a tree: the root mean square error is near σ and never above it."""
    rng = np.random.default_rng(11)
    errors = []
    for _ in range(60):
        x = family.generate(Point(n=n, dtype="float32"), rng)["x"]
        sums = np.cumsum(x.reshape(-1, chain), axis=1, dtype=np.float32)[:, -1]  # one after another
        while sums.size > 1:
            sums = sums[: sums.size // 2] + sums[sums.size // 2 :]
        errors.append(float(sums[0]) - math.fsum(x.tolist()))
    sigma = U * math.sqrt(n * (chain / 18 + math.log2(n) / 9))
    rms = math.sqrt(np.mean(np.square(errors)))
    assert 0.3 * sigma < rms < sigma
    assert max(map(abs, errors)) < allowed(family, n)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_the_reference_is_the_exact_sum(family: Family, dtype: str) -> None:
    problem = Point(n=100_003, dtype=dtype)
    inputs = family.generate(problem, np.random.default_rng(3))
    reference = family.reference(problem, inputs)["sum"]
    assert reference.dtype == (np.float64 if dtype == "float32" else np.int64)
    assert reference.tolist() == [pytest.approx(math.fsum(inputs["x"].tolist()), abs=1e-11)]
    if dtype == "int32":
        assert family.tolerance(problem, inputs, {"sum": reference}).absolute == 0


@pytest.mark.parametrize(("name", "dtype"), list(product(CPU, ("float32", "int32"))))
def test_cpu_variants_are_right(family: Family, name: str, dtype: str) -> None:
    for n in (1, 2, 33, 1000, 2**20 + 1):
        problem = Point(n=n, dtype=dtype)
        inputs = family.generate(problem, np.random.default_rng(n))
        before = inputs["x"].copy()
        outputs = {"sum": np.full(1, -7, dtype)}
        call = family.variant(name).make(problem, Point(), inputs, outputs)
        reference = family.reference(problem, inputs)
        bound = family.tolerance(problem, inputs, reference).absolute
        for _ in range(2):
            outputs["sum"][:] = -7
            call()
            assert abs(float(outputs["sum"][0]) - float(reference["sum"][0])) <= bound, n
        assert np.array_equal(inputs["x"], before)


@pytest.mark.parametrize("arch", seldom(ARCHS, ("sm_75", "sm_90")))
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_without_spills(family: Family, compile_variant, name: str, arch: str) -> None:
    cubin = compile_variant(family, name, Point(n=2**24, dtype="float32"), {}, arch)
    for kernel, facts in cubin.kernels.items():
        assert 0 < facts.registers <= 64, kernel
        assert facts.spill_bytes == facts.stack_bytes == 0, kernel


@pytest.mark.parametrize(("name", "tune"), [choice for choice in CHOICES if choice[1]])
def test_other_tunables_compile_within_the_registers_of_their_block(
    family: Family, compile_variant, name: str, tune: dict[str, int]
) -> None:
    cubin = compile_variant(family, name, Point(n=2**24, dtype="int32"), tune)
    for kernel, facts in cubin.kernels.items():
        assert facts.spill_bytes == 0, kernel
        assert facts.registers * tune["block"] <= 65_536, kernel


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(("name", "tune"), [*CHOICES, ("cupy_sum", {})])
def test_variants_are_right_on_the_gpu(family: Family, name: str, tune: dict[str, int], dtype: str) -> None:
    from tests.kernels.one_check import check_variant

    variant = family.variant(name)
    tunables = Point({**{tunable.name: tunable.default for tunable in variant.tunables}, **tune})
    for n in SIZES:
        check = check_variant(family, variant, Point(n=n, dtype=dtype), tunables)
        assert check.passed, f"n = {n}: {check.message}"
