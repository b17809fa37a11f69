"""Variants in CUDA C++: honest ones beside the plain one, and tricks that a kernel and its arguments alone can do."""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Launch, Point, Program

from .problem import family

BLOCK = 256
SOURCE = "tricks.cu"


def one_launch(problem: Point, kernel: str, *further: str, **details: object) -> Program:
    """Return a program of one kernel, a thread an element; `further` are buffers after x, y and z."""
    return Program(
        steps=(Launch(kernel, (count_blocks(problem),), (BLOCK,), ("x", "y", "z", *further, np.uint32(problem.n))),),
        defines={"BLOCK": BLOCK},
        **details,
    )


def with_arguments(problem: Point, kernel: str, *arguments: object) -> Program:
    """Return a program of one kernel with these arguments after x, y and z."""
    launch = Launch(kernel, (count_blocks(problem),), (BLOCK,), ("x", "y", "z", *arguments))
    return Program(steps=(launch,), defines={"BLOCK": BLOCK})


def count_blocks(problem: Point) -> int:
    """Return how many blocks cover the numbers."""
    return -(-problem.n // BLOCK)


@family.cuda("polynomial", source=SOURCE)
def polynomial_cuda(problem: Point, tune: Point) -> Program:
    """One thread an element; what the others on the GPU are held against."""
    return one_launch(problem, "polynomial")


@family.cuda("twice", source=SOURCE)
def twice(problem: Point, tune: Point) -> Program:
    """Writes each result twice."""
    return one_launch(problem, "twice")


@family.cuda("old_output_read_cuda", source=SOURCE)
def old_output_read_cuda(problem: Point, tune: Point) -> Program:
    """Reads what the output held before, and uses nothing of it."""
    return one_launch(problem, "old_output_read")


@family.cuda("two_launches", source=SOURCE)
def two_launches(problem: Point, tune: Point) -> Program:
    """Two launches, the second in place on the output of the first."""
    grid, block, n = (count_blocks(problem),), (BLOCK,), np.uint32(problem.n)
    steps = (Launch("powers", grid, block, ("x", "z", n)), Launch("add_in_place", grid, block, ("y", "z", n)))
    return Program(steps=steps, defines={"BLOCK": BLOCK})


@family.cuda("result_in_scratch", source=SOURCE)
def result_in_scratch(problem: Point, tune: Point) -> Program:
    """Leaves its result in scratch and says so."""
    launch = Launch("polynomial", (count_blocks(problem),), (BLOCK,), ("x", "y", "own", np.uint32(problem.n)))
    scratch = {"own": Array((problem.n,), "float32")}
    return Program(steps=(launch,), defines={"BLOCK": BLOCK}, scratch=scratch, results={"z": "own"})


@family.cuda("ends_there_cuda", source=SOURCE)
def ends_there_cuda(problem: Point, tune: Point) -> Program:
    """A block returns where its first and last result are already there."""
    return one_launch(problem, "ends_there")


@family.cuda("poison_awaited_cuda", source=SOURCE)
def poison_awaited_cuda(problem: Point, tune: Point) -> Program:
    """A block returns unless its first element holds what no result can be."""
    return one_launch(problem, "poison_awaited")


@family.cuda("noted_in_scratch_cuda", source=SOURCE)
def noted_in_scratch_cuda(problem: Point, tune: Point) -> Program:
    """A block notes in scratch that its results are there, and returns where it finds the note."""
    return one_launch(
        problem, "noted_in_scratch", "notes", scratch={"notes": Array((count_blocks(problem),), "uint32")}
    )


@family.cuda("kept_in_module", source=SOURCE)
def kept_in_module(problem: Point, tune: Point) -> Program:
    """Computes at its first launch into memory of its module, and copies at all later ones."""
    return one_launch(problem, "kept_by_count")


@family.cuda("lower_precision_cuda", source=SOURCE)
def lower_precision_cuda(problem: Point, tune: Point) -> Program:
    """Computes on operands cut to TF32's ten bits of mantissa."""
    return one_launch(problem, "lower_precision")


@family.cuda("tail_skipped_cuda", source=SOURCE)
def tail_skipped_cuda(problem: Point, tune: Point) -> Program:
    """Leaves out the last eighth."""
    return one_launch(problem, "tail_skipped")


@family.cuda("sparse_cuda", source=SOURCE)
def sparse_cuda(problem: Point, tune: Point) -> Program:
    """Reads one element in 1024 and gives the others its result."""
    return one_launch(problem, "sparse")


@family.cuda("one_in_fifty_cuda", source=SOURCE)
def one_in_fifty_cuda(problem: Point, tune: Point) -> Program:
    """Is wrong in one element in one execution of fifty."""
    return one_launch(problem, "one_in_fifty")


@family.cuda("input_overwritten_cuda", source=SOURCE)
def input_overwritten_cuda(problem: Point, tune: Point) -> Program:
    """Writes its result over an input too."""
    return one_launch(problem, "input_overwritten")


@family.cuda("written_beside_cuda", source=SOURCE)
def written_beside_cuda(problem: Point, tune: Point) -> Program:
    """Writes one number past the end of its output."""
    return one_launch(problem, "written_beside")


@family.cuda("int_for_size_t", source=SOURCE)
def int_for_size_t(problem: Point, tune: Point) -> Program:
    """Gives a 32-bit int where the kernel takes a size_t."""
    return with_arguments(problem, "counted_in_64_bits", problem.n)


@family.cuda("float_for_double", source=SOURCE)
def float_for_double(problem: Point, tune: Point) -> Program:
    """Gives a float where the kernel takes a double."""
    return with_arguments(problem, "scaled", np.uint32(problem.n), 1.0)


@family.cuda("one_argument_too_many", source=SOURCE)
def one_argument_too_many(problem: Point, tune: Point) -> Program:
    """Gives an argument more than the kernel takes."""
    return with_arguments(problem, "polynomial", np.uint32(problem.n), np.uint32(BLOCK))


@family.cuda("one_argument_too_few", source=SOURCE)
def one_argument_too_few(problem: Point, tune: Point) -> Program:
    """Gives an argument less than the kernel takes."""
    return with_arguments(problem, "polynomial")
