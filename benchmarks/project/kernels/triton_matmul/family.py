"""A Triton kernel over all of its configurations, and as `@triton.autotune` chooses one of them."""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Axis, Family, Launch, Program, Signature, Tolerance

NAMES = ("a", "b")


def product(inputs):
    return {"c": np.asarray(inputs["a"].astype(np.float32) @ inputs["b"].astype(np.float32), np.float64)}


family = Family(
    name="triton_matmul",
    title="C = A B in float16",
    axes=(Axis("n", 2048, low=64, high=16384),),
    signature=lambda problem: Signature(
        {name: Array((problem.n, problem.n), "float16") for name in NAMES},
        {"c": Array((problem.n, problem.n), "float16")},
    ),
    generate=lambda problem, rng: {
        name: rng.standard_normal((problem.n, problem.n), np.float32).astype(np.float16) for name in NAMES
    },
    reference=lambda problem, inputs: product(inputs),
    tolerance=lambda problem, inputs, reference: Tolerance(
        0.01 * problem.n**0.5, 2**-10, "float32 sums of n products in any order, rounded to float16"
    ),
    useful_bytes=lambda problem: 6 * problem.n**2,
    flops=lambda problem: 2 * problem.n**3,
)


@family.triton("every", source="matmul.py", kernel="matmul")
def every(problem, tune):
    """Each of the configurations."""
    n = problem.n
    grid = (-(-n // tune.BLOCK_M) * -(-n // tune.BLOCK_N),)
    return Program((Launch("matmul", grid, args=("a", "b", "c", n)),), dict(tune))


@family.library("chosen", requires=("triton", "torch"))
def chosen(problem, tune, inputs, outputs):
    """The configuration that `@triton.autotune` takes."""
    from cuprof.backends.torch_bridge import as_tensor, on_current_stream

    from .matmul import matmul

    a, b, c = as_tensor(inputs["a"]), as_tensor(inputs["b"]), as_tensor(outputs["c"])
    n = problem.n

    def run():
        with on_current_stream():
            matmul[lambda meta: (-(-n // meta["BLOCK_M"]) * -(-n // meta["BLOCK_N"]),)](a, b, c, n)

    run()
    return run
