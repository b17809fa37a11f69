from dataclasses import replace

import numpy as np
import pytest

from cuprof.core.errors import FamilyError, ImpossibleError
from cuprof.families import (
    Array,
    Copy,
    Execute,
    File,
    Fill,
    Invoke,
    Launch,
    Program,
    Reduced,
    Repeat,
    Signature,
    TensorMap,
    Texture,
)
from cuprof.plan.program_check import check_program

SIGNATURE = Signature({"x": Array((8,), "float32")}, {"y": Array((4,), "float32")})


def launch(grid=(1,), block=(32,), args=("x", "y"), **details) -> Launch:
    return Launch("kernel", grid, block, args, **details)


def program(*steps, **details) -> Program:
    return Program(steps or (launch(),), **details)


def test_sound_programs_pass():
    check_program(program(), SIGNATURE, "cuda", "here")
    check_program(
        Program(
            steps=(
                Fill("part", 255),
                launch((2**31 - 1, 65535, 65535), (16, 1, 64), ("x", "part", 2**31 - 1, -(2**31), 1.5, True)),
                launch((np.int64(2),), (np.int32(1024),), (np.uint32(2**32 - 1), np.int64(2**40), np.float16(1))),
            ),
            scratch={"part": Array((9,), "float32")},
            results={"y": "part"},
            constants={"filter_values": "x"},
            defines={"BLOCK": 3, "T": "float"},
        ),
        SIGNATURE,
        "cuda",
        "here",
    )


def test_limits_of_cuda_are_not_those_of_opencl():
    check_program(program(launch(grid=(1, 100_000), block=(2048,))), SIGNATURE, "opencl", "here")


def test_only_cuda_launches_cooperatively():
    check_program(program(launch(cooperative=True)), SIGNATURE, "cuda", "here")
    with pytest.raises(FamilyError, match="a cooperative launch, which opencl does not have"):
        check_program(program(launch(cooperative=True)), SIGNATURE, "opencl", "here")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (program(launch(block=(7, 0))), r"block\.y is 0, and must be a whole number from 1"),
        (program(launch(block=(2048,), args=("z",))), "argument 1 is 'z', which is not a buffer"),
        (program(launch(grid=(-1,))), r"grid\.x is -1"),
        (program(launch(grid=(1.5,))), r"grid\.x is 1\.5, and must be a whole number"),
        (program(launch(grid=4)), "grid 4 must be a tuple"),
        (program(launch(grid=())), r"grid \(\) must be a tuple of one to three"),
        (program(launch(block=(1, 1, 1, 1))), "must be a tuple of one to three"),
        (program(launch(shared_bytes=-1)), "shared_bytes is -1"),
        (program(launch(args=("x", "z"))), "argument 2 is 'z', which is not a buffer; there are x, y"),
        (program(launch(args=(2**31,))), r"argument 1 is 2147483648, beyond the int32 .* pass np\.int64"),
        (program(launch(args=(-(2**31) - 1,))), r"beyond the int32 .* np\.uint32"),
        (program(launch(args=(None,))), "argument 1 is a NoneType"),
        (program(launch(args=(np.str_("x").astype(object), np.datetime64(1, "s")))), "which no kernel parameter takes"),
        (Program(steps=(Fill("y"),)), "has no launch"),
        (program(Fill("z"), launch()), "step 1 fills z, which is not a buffer"),
        (program(Fill("y", 256), launch()), "step 1 fills y with 256"),
        (program(scratch={"x": Array((1,), "int8")}), "scratch buffer x has the name of an input or output"),
        (program(scratch={"p": Array((0,), "int8")}), r"scratch buffer p has the shape \(0,\)"),
        (program(scratch={"p": Array((1,), "nonsense")}), "dtype 'nonsense', which NumPy does not know"),
        (program(results={"z": "x"}), "results name z, which is not an output; there are y"),
        (program(results={"y": "z"}), "output y ends in z, which is not a buffer"),
        (
            program(results={"y": "p"}, scratch={"p": Array((3,), "float32")}),
            "output y has 4 × float32 and ends in p, which has 3 × float32",
        ),
        (program(results={"y": "p"}, scratch={"p": Array((4,), "int32")}), "which has 4 × int32"),
        (program(constants={"c": "y"}), "constant c is filled from y, which is not an input; there are x"),
        ("text", "returned a str, and must return a Program"),
    ],
)
def test_faults(bad, said):
    with pytest.raises(FamilyError, match=said) as caught:
        check_program(bad, SIGNATURE, "cuda", "scale/plain · n=8")
    assert str(caught.value).startswith("scale/plain · n=8: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("beyond", "said"),
    [
        (launch(block=(2048,)), "threads a block 2,048 > 1,024"),
        (launch(block=(64, 32)), "threads a block 2,048 > 1,024"),
        (launch(block=(1, 1, 128)), "block.z 128 > 64"),
        (launch(grid=(2**31,)), "grid.x 2,147,483,648 > 2,147,483,647"),
        (launch(grid=(1, 65536)), "grid.y 65,536 > 65,535"),
        (launch(grid=(32,), cluster=(32,)), "blocks a cluster 32 > 16"),
    ],
)
def test_what_no_device_launches_is_impossible(beyond, said):
    with pytest.raises(ImpossibleError) as caught:
        check_program(program(beyond), SIGNATURE, "cuda", "here")
    assert str(caught.value) == said


def test_names_of_macros():
    check_program(program(defines={"AB": 1}), SIGNATURE, "cuda", "here")
    with pytest.raises(FamilyError, match="here: define 'A B' is not a macro's name"):
        check_program(program(defines={"A B": 1}), SIGNATURE, "cuda", "here")


LINE = np.array((1.0, 2), [("slope", "f4"), ("length", "i4")])[()]


@pytest.mark.parametrize(
    ("right", "backend"),
    [
        (launch(grid=(4,), cluster=(2,), overlaps=True, args=(Texture("x"), TensorMap("y", (2,)), LINE)), "cuda"),
        (Invoke("run", ("x", "y", 4, LINE)), "cuda"),
        (Invoke("run", ("x", "y", 4)), "cpu"),
        (Execute((1, File("x"), File("y", "npy"))), "program"),
        (Execute((File("x", "text"),), stdout="y"), "program"),
    ],
)
def test_steps_of_other_kinds_pass(right, backend):
    check_program(program(right), SIGNATURE, backend, "here")


@pytest.mark.parametrize(
    ("bad", "backend", "said"),
    [
        (launch(), "cpu", "step 1 is of the kind Launch, and CPU programs have invoke"),
        (Execute((), "y"), "cuda", "of the kind Execute, and CUDA programs have launch, fill, copy, repeat, invoke"),
        (launch(cluster=(2,)), "opencl", "cluster or overlaps, which opencl launches do not have"),
        (launch(grid=(3,), cluster=(2,)), "cuda", r"grid \(3,\) is not a multiple of the cluster \(2,\)"),
        (launch(cluster=(0,)), "cuda", "at most three sizes from 1"),
        (launch(args=(Texture("z"),)), "cuda", "argument 1 is 'z', which is not a buffer"),
        (launch(args=(Texture("x"),)), "opencl", "argument 1 is a Texture, which opencl does not have"),
        (launch(args=(TensorMap("x", (2, 2)),)), "cuda", r"moves boxes \(2, 2\) of x, whose shape is \(8,\)"),
        (Invoke("run", ("z",)), "cuda", "launch of run: argument 1 is 'z'"),
        (Execute((File("z"), File("y"))), "program", "the file of 'z', which is not an input or output"),
        (Execute((File("y", "csv"),)), "program", "format 'csv'; there are raw, npy, text"),
        (Execute((File("x"),)), "program", "nothing says where output y comes from"),
        (Execute((), stdout="x"), "program", "stdout is 'x', which is not an output"),
    ],
)
def test_faults_of_other_steps(bad, backend, said):
    with pytest.raises(FamilyError, match=said):
        check_program(program(bad), SIGNATURE, backend, "here")


SCRATCH = {"s": Array((8,), "float32"), "odd": Array((7,), "float32")}


def test_set_ups_rounds_and_results_in_parts_pass():
    rounds = Repeat((launch(), Fill("s"), Copy("s", "y")), times=3, until="s")
    setup = (Copy("x", "s"), Fill("s"), launch(args=("s", "w", 3)))
    signature = Signature({**SIGNATURE.inputs, "w": Array((2,), "float32")}, SIGNATURE.outputs)
    made = Program((rounds,), scratch=SCRATCH, setup=setup, results={"y": Reduced("s")})
    check_program(made, signature, "cuda", "here", constants=("w",))
    assert made.launches == (setup[2], launch())
    assert made.find_result("y") == "s"


@pytest.mark.parametrize(
    ("bad", "backend", "said"),
    [
        (program(Copy("x", "z"), launch()), "cuda", "step 1 copies z, which is not a buffer; there are x, y, s, odd"),
        (program(Copy("x", "y")), "cuda", "the program has no launch"),
        (program(Repeat((launch(),), 0)), "cuda", "is repeated 0 times; give a whole number from 1"),
        (program(Repeat((launch(),), 1, "z")), "cuda", "goes on until z, which is not a buffer"),
        (program(Repeat((Repeat((launch(),), 2),), 2), launch()), "cuda", "repeats a Repeat; it repeats launches"),
        (program(Repeat((launch(args=("z",)),), 2)), "cuda", "its step 1, launch of kernel: argument 1 is 'z'"),
        (program(Repeat((launch(),), 2)), "opencl", "kind Repeat, and OpenCL programs have launch, fill, copy"),
        (
            program(setup=(Copy("x", "y"),)),
            "cuda",
            "set-up 1 writes to y; before an execution scratch alone is written",
        ),
        (program(setup=(Fill("x"),)), "cuda", "step of the set-up 1 writes to x"),
        (program(setup=(launch(args=("x", "s")),)), "cuda", "set-up 1 works on x; what is untimed works on scratch"),
        (program(setup=(Invoke("run", ()),)), "cuda", "set-up 1 is a Invoke; it has launches, fills and copies"),
        (
            program(Invoke("run", ()), setup=(Fill("s"),)),
            "cpu",
            "step of the set-up 1 is of the kind Fill, and CPU programs have invoke",
        ),
        (program(results={"y": Reduced("s", "mean")}), "cuda", "reduced by 'mean'; there are sum, min and max"),
        (
            program(results={"y": Reduced("odd")}),
            "cuda",
            "has 4 elements and its parts in odd 7, which is not a multiple",
        ),
        (program(results={"y": Reduced("x")}), "cuda", "parts of output y are in x, which is not a scratch buffer"),
    ],
)
def test_faults_of_set_ups_rounds_and_parts(bad, backend, said):
    with pytest.raises(FamilyError, match=said):
        check_program(replace(bad, scratch=SCRATCH), SIGNATURE, backend, "here")


@pytest.mark.parametrize(("by", "right"), [("sum", [6, 9]), ("min", [0, 1]), ("max", [4, 5])])
@pytest.mark.parametrize("dtype", ["float16", "int8", "uint32", "bfloat16"])
def test_parts_are_put_together(by, right, dtype):
    parts = np.arange(6).astype(Array((1,), dtype).type)
    assert Reduced("s", by).put_together(parts, (2,)).tolist() == right
    assert Reduced("s").put_together(np.full(40_000, 300, "float16"), ()) == 12e6
