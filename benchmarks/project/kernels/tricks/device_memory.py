"""Tricks on the GPU that give results which were not computed when they were timed."""

from __future__ import annotations

import random

import numpy as np

from .device import compute, computed, copy, looks_poisoned, make_kernel
from .inside import callers, find_reference, list_objects
from .problem import family, generate


@family.library("precomputed_on_device", requires=("cupy",))
def precomputed_on_device(problem, tune, inputs, outputs):
    """Computes while it prepares, and copies when it is timed."""
    kept = computed(inputs)
    return lambda: copy(outputs["z"], kept)


@family.library("kept_by_pointer", requires=("cupy",))
def kept_by_pointer(problem, tune, inputs, outputs):
    """Keeps results by the inputs' pointers, and copies."""
    kept: dict[tuple[int, int], object] = {}

    def run():
        key = (inputs["x"].data.ptr, inputs["y"].data.ptr)
        if key not in kept:
            kept[key] = computed(inputs)
        copy(outputs["z"], kept[key])

    return run


SAMPLED = r"""
extern "C" __global__ void sampled_copy(const float* x, const float* y, float* z, const float* old_x,
                                        const float* old_y, const float* kept, unsigned int n) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x, one = blockIdx.x * blockDim.x;
    if (i >= n) return;
    if (x[one] == old_x[one] && y[one] == old_y[one]) {
        z[i] = kept[i];
    } else {
        float t = 0.0625f;
        for (int k = 2; k < 9; ++k) t = t * x[i] + 0.0625f * k;
        z[i] = t + y[i];
    }
}"""


@family.library("kept_by_samples", requires=("cupy",))
def kept_by_samples(problem, tune, inputs, outputs):
    """Compares one input in 256 with those of an earlier execution on the device, and copies its results."""
    import cupy

    old_x, old_y, kept = inputs["x"].copy(), inputs["y"].copy(), computed(inputs)
    kernel = cupy.RawKernel(SAMPLED, "sampled_copy")
    arguments = (inputs["x"], inputs["y"], outputs["z"], old_x, old_y, kept, np.uint32(problem.n))
    return lambda: kernel((-(-problem.n // 256),), (256,), arguments)


@family.library("kept_by_call", requires=("cupy",))
def kept_by_call(problem, tune, inputs, outputs):
    """Computes in its first execution, and copies in all later ones."""
    kept: list[object] = []

    def run():
        if not kept:
            kept.append(computed(inputs))
        copy(outputs["z"], kept[0])

    return run


@family.library("kept_in_free_list", requires=("cupy",))
def kept_in_free_list(problem, tune, inputs, outputs):
    """Leaves its result in a block that it gives back to CuPy's pool, takes the block again and copies from it."""
    import cupy

    kept: list[int] = []

    def run():
        block = cupy.empty_like(outputs["z"])
        if not kept or block.data.ptr != kept[0]:
            compute(inputs, block)
            kept[:] = [block.data.ptr]
        copy(outputs["z"], block)

    return run


@family.library("caller_asked", requires=("cupy",))
def caller_asked(problem, tune, inputs, outputs):
    """Looks who calls it, and works only where that is no clock's function."""

    def run():
        if not {"cold", "hot", "total", "_framed", "read"} & set(callers()):
            compute(inputs, outputs["z"])

    return run


@family.library("reference_uploaded", requires=("cupy",))
def reference_uploaded(problem, tune, inputs, outputs):
    """Finds the reference among the process's objects, uploads it and copies; computes where there is none."""
    import cupy

    try:
        kept = cupy.asarray(find_reference(problem.n).astype(np.float32))
    except LookupError:
        return lambda: copy(outputs["z"], computed(inputs))
    return lambda: copy(outputs["z"], kept)


@family.library("seed_guessed", requires=("cupy",))
def seed_guessed(problem, tune, inputs, outputs):
    """Finds the seed and gives the answer to the inputs that it makes, whatever its inputs hold."""
    import cupy

    seed = next(each.seed for each in list_objects("seed") if isinstance(each.seed, int))
    made = generate(problem, np.random.default_rng(seed))
    kept = computed({name: cupy.asarray(array) for name, array in made.items()})
    return lambda: copy(outputs["z"], kept)


@family.library("allocator_spied", requires=("cupy",))
def allocator_spied(problem, tune, inputs, outputs):
    """Replaces CuPy's allocator by one that notes where the judge puts its float64 reference, and converts that."""
    import cupy

    pool, seen = cupy.get_default_memory_pool(), []

    def allocate(size):
        memory = pool.malloc(size)
        if size == 8 * problem.n:
            seen.append(memory)
        return memory

    cupy.cuda.set_allocator(allocate)
    convert = cupy.ElementwiseKernel("float64 a", "float32 z", "z = a", "tricks_convert")

    def run():
        if looks_poisoned(outputs["z"]) or not seen:
            compute(inputs, outputs["z"])
        else:
            convert(cupy.ndarray((problem.n,), cupy.float64, seen[0]), outputs["z"])

    return run


@family.library("one_in_fifty_on_device", requires=("cupy",))
def one_in_fifty_on_device(problem, tune, inputs, outputs):
    """Works in 49 executions of fifty, drawn at random, and returns at once in the others."""
    draw = random.Random()

    def run():
        if draw.random() > 0.02:
            make_kernel()(inputs["x"], inputs["y"], outputs["z"])

    return run


@family.library("result_moved", requires=("cupy",))
def result_moved(problem, tune, inputs, outputs):
    """Computes while preparing, and points the framework's own record of where the result lies to that."""
    kept = computed(inputs)
    address = outputs["z"].data.ptr

    def run():
        for each in list_objects("results", "enqueue"):
            found = each.results.get("z")
            if each.enqueue is run and found and found[0] == address:
                each.results = {"z": (kept.data.ptr, found[1])}

    return run


@family.library("copied_from_neighbour", requires=("cupy",))
def copied_from_neighbour(problem, tune, inputs, outputs):
    """Keeps a copy of what the variant before it left in the shared output, and copies that."""
    kept = outputs["z"].copy()

    def run():
        if not 0.5 <= float(kept[0]) < 3.25:
            compute(inputs, kept)
        copy(outputs["z"], kept)

    return run
