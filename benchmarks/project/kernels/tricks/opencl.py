"""Variants in OpenCL C: two honest ones beside the plain one, and tricks that a kernel alone can do."""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Launch, Point, Program

from .problem import family

GROUP = 64
SOURCE = "tricks.cl"


def one_launch(problem: Point, kernel: str, *further: str, **details: object) -> Program:
    """Return a program of one kernel, a work-item an element; `further` are buffers after x, y and z."""
    arguments = ("x", "y", "z", *further, np.uint32(problem.n))
    return Program(steps=(Launch(kernel, (count_groups(problem),), (GROUP,), arguments),), **details)


def count_groups(problem: Point) -> int:
    """Return how many work-groups cover the numbers."""
    return -(-problem.n // GROUP)


@family.opencl("plain_cl", source=SOURCE)
def plain_cl(problem: Point, tune: Point) -> Program:
    """One work-item an element; what the others in OpenCL are held against."""
    return one_launch(problem, "plain")


@family.opencl("old_output_read_cl", source=SOURCE)
def old_output_read_cl(problem: Point, tune: Point) -> Program:
    """Reads what the output held before, and uses nothing of it."""
    return one_launch(problem, "old_output_read")


@family.opencl("two_launches_cl", source=SOURCE)
def two_launches_cl(problem: Point, tune: Point) -> Program:
    """Two launches with an intermediate result in scratch."""
    grid, block, n = (count_groups(problem),), (GROUP,), np.uint32(problem.n)
    steps = (Launch("halve", grid, block, ("x", "part", n)), Launch("add_in_place", grid, block, ("y", "part", "z", n)))
    return Program(steps=steps, scratch={"part": Array((problem.n,), "float32")})


@family.opencl("ends_there_cl", source=SOURCE)
def ends_there_cl(problem: Point, tune: Point) -> Program:
    """A group returns where its first and last result are already there."""
    return one_launch(problem, "ends_there")


@family.opencl("poison_awaited_cl", source=SOURCE)
def poison_awaited_cl(problem: Point, tune: Point) -> Program:
    """A group returns unless its first element holds what no result can be."""
    return one_launch(problem, "poison_awaited")


@family.opencl("noted_in_scratch_cl", source=SOURCE)
def noted_in_scratch_cl(problem: Point, tune: Point) -> Program:
    """A group notes in scratch that its results are there, and returns where it finds the note."""
    return one_launch(
        problem, "noted_in_scratch", "notes", scratch={"notes": Array((count_groups(problem),), "uint32")}
    )


@family.opencl("tail_skipped_cl", source=SOURCE)
def tail_skipped_cl(problem: Point, tune: Point) -> Program:
    """Leaves out the last eighth."""
    return one_launch(problem, "tail_skipped")


@family.opencl("one_in_fifty_cl", source=SOURCE)
def one_in_fifty_cl(problem: Point, tune: Point) -> Program:
    """Is wrong in one execution of fifty, counted in scratch."""
    return one_launch(problem, "one_in_fifty", "count", scratch={"count": Array((1,), "uint32")})


@family.opencl("input_overwritten_cl", source=SOURCE)
def input_overwritten_cl(problem: Point, tune: Point) -> Program:
    """Writes its result over an input too."""
    return one_launch(problem, "input_overwritten")


@family.opencl("written_beside_cl", source=SOURCE)
def written_beside_cl(problem: Point, tune: Point) -> Program:
    """Writes one number past the end of its output."""
    return one_launch(problem, "written_beside")
