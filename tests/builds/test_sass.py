"""Machine code: its identity, its text, its registers, and how two codes correspond."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.builds import sass
from cuprof.builds.machine_code import hash_code, hash_launched
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.builds.sass import (
    Instruction,
    compare_code,
    disassemble,
    find_blocks,
    find_causes,
    read_registers,
)
from cuprof.core.errors import BuildError, MissingDependencyError

SOURCE = """
__global__ void NAME(const float *x, float *y, int n)
{
    __shared__ float all[256];
    all[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x] * FACTOR;
    __syncthreads();
    if (threadIdx.x < n) y[threadIdx.x] = all[threadIdx.x ^ 1];
}
"""


def build(name: str = "f", factor: str = "2", file: str = "f.cu", lead: str = "") -> bytes:
    pytest.importorskip("cuda.bindings.nvrtc")
    text = lead + SOURCE.replace("NAME", name).replace("FACTOR", factor)
    return NvrtcBuild(text, file, "sm_90").run().image


def test_names_files_and_lines_do_not_change_the_code() -> None:
    assert hash_code(build()) == hash_code(build("other_name", file="g.cu", lead="// a comment\n\n")) != ""


def test_another_constant_or_size_is_another_code() -> None:
    assert hash_code(build()) != hash_code(build(factor="3"))


@pytest.mark.parametrize("image", [b"", b"\x7fELF", b".version 8.0\n.target sm_90", b"\x7fELF\x02\x01" + b"\xff" * 80])
def test_what_is_no_cubin_has_no_hash(image: bytes) -> None:
    assert hash_code(image) == ""


def code_of(image: bytes) -> tuple[Instruction, ...]:
    try:
        (code,) = disassemble(image).values()
    except MissingDependencyError as error:
        pytest.skip(str(error))
    return code


def test_a_listing_has_every_instruction_with_its_line() -> None:
    code = code_of(build())
    assert code[-1].operation == "EXIT"
    assert {one.line for one in code if one.operation == "LDG"} == {5}
    assert {one.line for one in code if one.operation == "BAR"} == {6}
    assert [one.offset for one in code] == [16 * number for number in range(len(code))]


def test_a_wait_leads_back_to_the_load() -> None:
    code = code_of(build())
    product = next(number for number, one in enumerate(code) if one.operation in ("FADD", "FMUL"))
    cause = find_causes(code, {product: "long_scoreboard"}).get(product)
    assert cause is not None
    assert code[cause].operation == "LDG"
    assert find_causes(code, {product: "math_pipe_throttle"}).get(product) is None


def test_nvdisasm_is_found_in_a_toolkit_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "nvdisasm"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setattr(sass, "find_spec", lambda name: None)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert sass.find_nvdisasm.__wrapped__() == str(program)


def test_a_file_that_is_no_machine_code_is_refused() -> None:
    try:
        with pytest.raises(BuildError, match="nvdisasm cannot read"):
            disassemble(b"nothing")
    except MissingDependencyError as error:
        pytest.skip(str(error))


def listing(*texts: str) -> list[Instruction]:
    return [Instruction(16 * number, text) for number, text in enumerate(texts)]


def test_what_was_written_again_is_not_waited_for() -> None:
    code = listing("LDG.E R4, [R2.64]", "FADD R4, R1, R1", "FADD R5, R4, R4")
    assert find_causes(code, {2: "long_scoreboard"}).get(2) is None
    assert find_causes(code[:1] + code[2:], {1: "long_scoreboard"}).get(1) == 0


def test_a_loop_is_its_own_predecessor() -> None:
    code = listing("MOV R9, RZ", "FADD R5, R4, R5", "LDG.E R4, [R2.64]", "@P0 BRA 0x10", "EXIT")
    assert find_blocks(code) == [range(1), range(1, 4), range(4, 5)]
    assert find_causes(code, {1: "long_scoreboard"}).get(1) == 2


def test_registers_of_wide_loads_and_predicates() -> None:
    writes, reads = read_registers(Instruction(0, "@!P0 LDG.E.128 R4, desc[UR8][R2.64]"))
    assert writes == {"R4", "R5", "R6", "R7"}
    assert {"P0", "R2", "R3"} <= reads
    assert read_registers(Instruction(0, "STG.E [R2.64], R5"))[0] == frozenset()


def test_codes_are_aligned_by_block_and_then_by_instruction() -> None:
    base = listing("S2R R0, SR_TID.X", "BRA 0x20", "LDG.E R4, [R2]", "FADD R5, R4, R4", "EXIT")
    new = listing("S2R R0, SR_TID.X", "BRA 0x20", "LDG.E R4, [R2]", "FMUL R5, R4, R4", "EXIT")
    changes = list(compare_code(base, new))
    assert "".join(sign for sign, _ in changes) == "===-+="
    assert changes[3:5] == [("-", "FADD R5, R4, R4"), ("+", "FMUL R5, R4, R4")]


def test_of_a_file_with_several_kernels_the_launched_ones_count() -> None:
    both = build(lead=SOURCE.replace("NAME", "g").replace("FACTOR", "3"))
    assert hash_launched(both, ["f"]) != hash_launched(both, ["g"])
    assert hash_launched(build(), ["f"]) == hash_launched(build("other"), ["other"]) == hash_code(build())
