"""The filter3x3 family: opcode counts in the machine code against the published ones, geometry, reference, results."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib import metadata
from tempfile import NamedTemporaryFile
from typing import NamedTuple

import numpy as np
import pytest
from scipy.ndimage import correlate

from cuprof.builds import Built
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.core.project import bundled
from cuprof.families import Family, Launch, Point
from cuprof.families.origin import load_family
from cuprof.families.sources import expand_includes
from cuprof.worker.compare import compare
from tests.kernels.often import seldom
from tests.kernels.one_check import check_variant

CompileVariant = Callable[..., Built]

PUBLISHED = bundled("experiments") / "filter3x3" / "published"
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100")
FACTORS = (2, 4, 8, 12, 16)
PLAIN = ("gm", "cm", "sm")
COARSE = ("gm_cf", "cm_cf", "sm_cf")
VECTOR = ("gm_vec", "cm_vec", "sm_vec")
LIBRARIES = ("npp_filter", "cupy_convolve", "opencv_cuda", "cucim", "cvcuda", "arrayfire", "opencv_cpu")
HOST = ("opencv_cpu", "cpu_serial", "cpu_parallel")
SIZE = Point({"size": 3072})
WARPS = 3072 * 3072 // 32


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family(bundled("kernels") / "filter3x3")


def tune(family: Family, variant: str, **values: object) -> Point:
    defaults = {tunable.name: tunable.default for tunable in family.variant(variant).tunables}
    return Point({**defaults, **values})


def test_the_study_has_its_variants(family: Family) -> None:
    assert tuple(family.variants) == (*PLAIN, *COARSE, *VECTOR, "gm_float", *LIBRARIES, "cpu_serial", "cpu_parallel")
    assert family.get_baseline() == "gm"


@pytest.mark.parametrize(
    ("variant", "values", "grid", "block"),
    [
        ("gm", {}, (192, 192), (16, 16)),
        ("cm", {}, (192, 192), (16, 16)),
        ("sm", {}, (96, 96), (32, 32)),
        ("gm_cf", {"cf": 2}, (96, 192), (16, 16)),
        ("cm_vec", {"cf": 12}, (16, 192), (16, 16)),
        ("sm_cf", {"cf": 16}, (6, 96), (32, 32)),
        ("sm_vec", {"cf": 4, "block": 16}, (48, 192), (16, 16)),
    ],
)
def test_a_thread_computes_cf_pixels_of_a_row(
    family: Family, variant: str, values: dict[str, int], grid: tuple[int, int], block: tuple[int, int]
) -> None:
    program = family.variant(variant).make(SIZE, tune(family, variant, **values))
    (launch,) = program.steps
    assert isinstance(launch, Launch)
    assert (launch.grid, launch.block) == (grid, block)
    assert program.defines["CF"] == values.get("cf", 1)
    assert program.defines["VECTOR"] == variant.endswith("_vec")
    assert (program.defines["PARTIAL"], program.defines["RAGGED"]) == (0, 0)
    assert program.constants == ({"filter_weights": "weights"} if variant.startswith("cm") else {})


def test_sizes_that_leave_a_part_over_are_told_to_the_kernel(family: Family) -> None:
    make = family.variant("sm_cf").make
    whole_runs = make(Point({"size": 40}), tune(family, "sm_cf", cf=8)).defines
    partial_runs = make(Point({"size": 41}), tune(family, "sm_cf", cf=8)).defines
    assert (whole_runs["PARTIAL"], whole_runs["RAGGED"]) == (0, 1)
    assert (partial_runs["PARTIAL"], partial_runs["RAGGED"]) == (1, 1)


@pytest.mark.parametrize("variant", VECTOR)
def test_vector_stores_refuse_rows_that_are_not_aligned(family: Family, variant: str) -> None:
    constraint = family.variant(variant).constraint
    assert constraint(Point({"size": 30}), Point({"cf": 2, "block": 16})) is None
    assert "a size that 2 divides" in constraint(Point({"size": 31}), Point({"cf": 2, "block": 16}))
    assert "a size that 4 divides" in constraint(Point({"size": 30}), Point({"cf": 12, "block": 16}))
    assert constraint(Point({"size": 32}), Point({"cf": 12, "block": 16})) is None


def test_no_size_leaves_the_limits_of_a_launch_or_of_32_bit_indices(family: Family) -> None:
    largest = family.axis("size").high
    program = family.variant("gm").make(Point({"size": largest}), tune(family, "gm", block=8))
    assert program.launches[0].grid[1] <= 65535
    assert largest**2 < 2**31


@pytest.mark.parametrize("arch", seldom(ARCHITECTURES, ("sm_75", "sm_90")))
@pytest.mark.parametrize("variant", [*PLAIN, *COARSE, *VECTOR, "gm_float"])
def test_kernels_compile_without_spills(
    family: Family, compile_variant: CompileVariant, variant: str, arch: str
) -> None:
    cubin = compile_variant(family, variant, SIZE, {}, arch)
    facts = next(facts for name, facts in cubin.kernels.items() if name.startswith("filter_"))
    assert (facts.spill_bytes, facts.stack_bytes) == (0, 0)
    cf = 8 if variant in (*COARSE, *VECTOR) else 1
    frame = 4 if variant in VECTOR else 1  # a run that is stored as vectors begins at a multiple of their width
    assert facts.shared_bytes == (34 * (32 * cf + 2 * frame) if variant.startswith("sm") else 0)


@pytest.mark.parametrize("variant", ["gm_cf", "cm_cf", "sm_cf", "gm_vec", "sm_vec"])
def test_kernels_compile_where_runs_are_partial(family: Family, compile_variant: CompileVariant, variant: str) -> None:
    cubin = compile_variant(family, variant, Point({"size": 1000}), {"cf": 12})
    assert all(facts.spill_bytes == 0 for facts in cubin.kernels.values())


class Code(NamedTuple):
    """Instructions by opcode: those that every warp executes, and those in parts that warps may branch around."""

    always: Counter[str]
    branched: Counter[str]


@cache  # half a second of a processor each, and several tests look at one kernel
def list_code(image: bytes) -> str:
    """Return what nvdisasm writes of an image."""
    program = find_nvdisasm()
    if program is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        return subprocess.run([program, "-c", "-ndf", file.name], capture_output=True, text=True, check=True).stdout


def disassemble(cubin: Built, kernel: str = "") -> Code:
    """Return what nvdisasm finds in kernels without loops; predicated instructions count as executed.

    Args:
        kernel: how the kernels' names begin that count.
    """
    code = Code(Counter(), Counter())
    target, section = "", ""
    for line in list_code(cubin.image).splitlines():
        named = re.match(r"\.text\.(\w+):", line.strip())
        section = named[1] if named else section
        if not section.startswith(kernel):
            continue
        label = re.match(r"(\.L_x_\d+):", line.strip())
        if label and label[1] == target:
            target = ""
        found = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\d+ )?\s*([A-Z0-9]+)", line)
        if not found:
            continue
        (code.branched if target else code.always)[found[2]] += 1
        if found[2] == "BRA" and found[1] and not target:
            target = re.search(r"\.L_x_\d+", line)[0]
    return code


def find_nvdisasm() -> str | None:
    """Return the program of NVIDIA's wheel, or of a CUDA toolkit on PATH."""
    try:
        files = metadata.files("nvidia-cuda-nvdisasm") or []
    except metadata.PackageNotFoundError:
        return shutil.which("nvdisasm")
    return next((str(file.locate()) for file in files if file.name == "nvdisasm"), None)


def read_published(measure: str, variants: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    """Yield (variant of the family, coarsening factor, published count) of one opcode."""
    with (PUBLISHED / "filter3x3_base.csv").open(newline="") as file:
        rows = [(row, {name: (name.lower(), 1) for name in ("GM", "CM", "SM")}) for row in csv.DictReader(file)]
    with (PUBLISHED / "filter3x3_coarsening.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            variant = row["variant"].lower() if "_" in row["variant"] else f"{row['variant'].lower()}_cf"
            rows.append((row, {f"CF{cf}": (variant, cf) for cf in FACTORS}))
    for row, columns in rows:
        for column, (variant, cf) in columns.items():
            if row["measure"] == measure and variant in variants and row[column]:
                yield variant, cf, int(row[column])


EXACT = [
    *(("LDG", *each) for each in read_published("LDG", ("gm", "cm", "gm_cf", "cm_cf"))),
    *(("STG", *each) for each in read_published("STG", (*PLAIN, *VECTOR))),
]


def test_the_published_counts_are_there() -> None:
    assert len(EXACT) == (2 + 10) + (3 + 15)


ENDS = (1, FACTORS[0], FACTORS[-1])
"""Factors whose cubins are taken apart each time, which costs half a second; the others seldom."""
SHORT = [(variant, FACTORS[0]) for variant in COARSE]
"""Seldom too: the longest runs take the same way. Stores of two pixels and of four are different instructions."""
STAGED = list(read_published("LDG", COARSE[2:]))


@pytest.mark.parametrize(
    ("opcode", "variant", "cf", "published"),
    seldom(EXACT, [each for each in EXACT if each[2] in ENDS and each[1:3] not in SHORT]),
)
def test_opcode_counts_equal_the_published_ones(
    family: Family,
    compile_variant: CompileVariant,
    opcode: str,
    variant: str,
    cf: int,
    published: int,
) -> None:
    values = {} if cf == 1 else {"cf": cf}
    code = disassemble(compile_variant(family, variant, SIZE, {**values, "block": 16}))
    assert code.branched[opcode] == 0
    assert code.always[opcode] * WARPS // cf == published


@pytest.mark.parametrize("cf", seldom(FACTORS, ENDS[2:]))
def test_without_vectors_every_pixel_is_a_store(family: Family, compile_variant: CompileVariant, cf: int) -> None:
    code = disassemble(compile_variant(family, "gm_cf", SIZE, {"cf": cf}))
    assert (code.always["STG"], code.branched["STG"]) == (cf, 0)


@pytest.mark.parametrize(("variant", "cf", "published"), seldom(STAGED, [each for each in STAGED if each[1] in ENDS]))
def test_staging_loads_exceed_the_published_ones_by_the_frame_outside_the_image(
    family: Family, compile_variant: CompileVariant, variant: str, cf: int, published: int
) -> None:
    code = disassemble(compile_variant(family, variant, SIZE, {"cf": cf, "block": 16}))
    blocks = (3072 // 16) * (3072 // 16 // cf)
    assert code.branched["LDG"] == 2 * cf  # upper and lower frame, one warp of the block each
    assert code.always["LDG"] * WARPS // cf + 2 * cf * blocks == published + 384


def test_one_pixel_a_thread_predicates_the_frame(family: Family, compile_variant: CompileVariant) -> None:
    code = disassemble(compile_variant(family, "sm", SIZE, {"block": 16}))
    ((_, _, published),) = read_published("STS", ("sm",))
    assert code.always["STS"] * WARPS == published
    assert code.always["LDS"] == 9
    assert code.always["LDG"] == 9 + 1 + 4


@pytest.mark.parametrize("cf", seldom(FACTORS, ENDS))
def test_sm_with_vectors_stores_runs_into_shared_memory_as_vectors(
    family: Family, compile_variant: CompileVariant, cf: int
) -> None:
    code = disassemble(compile_variant(family, "sm_vec", SIZE, {"cf": cf, "block": 16}))
    stores = code.always["STS"] + code.branched["STS"]
    vectors = -(-cf // 4)
    assert stores <= 3 * vectors + 4  # the runs of three rows; a byte at each end of two rows of the frame and of one
    plain = disassemble(compile_variant(family, "sm_cf", SIZE, {"cf": cf, "block": 16}))
    assert (code.always["LDG"], code.branched["LDG"]) == (plain.always["LDG"], plain.branched["LDG"])


def count_instructions(cubin: Built) -> int:
    """Return what a warp executes of the filter, without the jump and the padding behind the end."""
    code = disassemble(cubin, "filter_")
    return sum(number for name, number in (code.always + code.branched).items() if name not in ("NOP", "BRA"))


CLAMPS = {
    "max(x + offset, 0)": "x + offset",
    "min(x + offset, size - 1)": "x + offset",
    "max(y - 1, 0)": "(y - 1)",
    "min(y + 1, size - 1)": "(y + 1)",
}
"""What moves neighbours into the image, and the same without that."""


@pytest.mark.usefixtures("compile_variant")  # skips without a compiler
@pytest.mark.parametrize(
    ("variant", "clamped", "plain"),
    [("gm", 80, 56), ("gm_float", 89, 65), ("cm", 70, 46)],
)
def test_float_weights_without_clamping_execute_what_was_published(
    family: Family, variant: str, clamped: int, plain: int
) -> None:
    """Count what a warp executes on the published card's architecture; published are 66 for GM, and 56 for CM."""
    source, program = (
        family.variant(variant).source,
        family.variant(variant).make(SIZE, tune(family, variant, block=16)),
    )
    text = expand_includes(family.folder / source, family.folder)
    without = text
    for clamp, instead in CLAMPS.items():
        assert clamp in without
        without = without.replace(clamp, instead)
    found = []
    for each in (text, without):
        cubin = NvrtcBuild(each, name=source, arch="sm_75", defines=program.defines).run()
        found.append(count_instructions(cubin))
    assert found == [clamped, plain]


@pytest.mark.parametrize("size", [3, 4, 17, 300])
def test_reference_equals_scipys_correlation_inside(family: Family, size: int) -> None:
    problem = Point({"size": size})
    inputs = family.generate(problem, np.random.default_rng(5))
    expected = correlate(inputs["image"].astype(float), inputs["weights"] / 16.0, mode="nearest")
    reference = family.reference(problem, inputs)["output"]
    np.testing.assert_array_equal(reference[1:-1, 1:-1], expected[1:-1, 1:-1])
    assert set(np.unique(reference[[0, -1]])) == {0.0}


def test_both_whole_neighbours_of_the_quotient_are_right_and_nothing_else(family: Family) -> None:
    problem = Point({"size": 64})
    inputs = family.generate(problem, np.random.default_rng(6))
    reference = family.reference(problem, inputs)
    tolerance = family.tolerance(problem, inputs, reference)
    exact = reference["output"]

    def passes(result: np.ndarray) -> bool:
        return compare({"output": result.astype(np.uint8)}, reference, tolerance).passed

    assert passes(np.floor(exact))
    assert passes(np.ceil(exact))
    assert passes(np.rint(exact))
    for error in (-1, 1):
        wrong = np.floor(exact) if error < 0 else np.ceil(exact)
        wrong[30, 40] += error
        assert not passes(wrong)
    untouched = np.floor(exact)
    untouched[0], untouched[:, -1] = 255, 255
    assert passes(untouched), "the border is not part of the result"


@pytest.mark.parametrize("size", [3, 4, 33, 258])
@pytest.mark.parametrize("variant", HOST)
def test_variants_on_the_host_are_right(family: Family, variant: str, size: int) -> None:
    check = check_variant(family, variant, {"size": size}, seed=7)
    assert check.passed, check.message


@pytest.mark.parametrize("variant", ["cpu_serial", "cpu_parallel"])
def test_our_own_host_variants_truncate(family: Family, variant: str) -> None:
    problem = Point({"size": 40})
    inputs = family.generate(problem, np.random.default_rng(8))
    output = np.full((40, 40), 255, np.uint8)
    family.variant(variant).make(problem, Point(), inputs, {"output": output})()
    expected = np.floor(family.reference(problem, inputs)["output"][1:-1, 1:-1])
    np.testing.assert_array_equal(output[1:-1, 1:-1], expected)


@pytest.mark.gpu
@pytest.mark.parametrize("size", [3, 16, 37, 100, 516, 3072])
@pytest.mark.parametrize("variant", [*PLAIN, "gm_float", *COARSE, *VECTOR])
def test_kernels_are_right(family: Family, variant: str, size: int) -> None:
    for block in (8, 16, 32):
        for cf in FACTORS if variant in (*COARSE, *VECTOR) else (1,):
            chosen = {"block": block} | ({"cf": cf} if variant in (*COARSE, *VECTOR) else {})
            constraint = family.variant(variant).constraint
            if constraint is None or constraint(Point({"size": size}), Point(chosen)) is None:
                check = check_variant(family, variant, {"size": size}, chosen)
                assert check.passed, f"{chosen}: {check.message}"


@pytest.mark.gpu
@pytest.mark.parametrize("size", [33, 3072])
def test_cupys_convolution_is_right(family: Family, size: int) -> None:
    check = check_variant(family, "cupy_convolve", {"size": size})
    assert check.passed, check.message


@pytest.mark.gpu
@pytest.mark.parametrize("size", [33, 3072])
@pytest.mark.parametrize("variant", ["cucim", "cvcuda"])
def test_nvidias_image_libraries_are_right(family: Family, variant: str, size: int) -> None:
    pytest.importorskip(variant)
    check = check_variant(family, variant, {"size": size})
    assert check.passed, check.message


@pytest.mark.gpu
@pytest.mark.parametrize("border", ["interior", "replicate"])
@pytest.mark.parametrize("size", [33, 3072])
def test_npp_is_right(family: Family, size: int, border: str) -> None:
    pathfinder = pytest.importorskip("cuda.pathfinder")
    try:
        pathfinder.load_nvidia_dynamic_lib("nppif")
    except pathfinder.DynamicLibNotFoundError:
        pytest.skip("NPP's filter library is not installed")
    check = check_variant(family, "npp_filter", {"size": size}, {"border": border})
    assert check.passed, check.message
