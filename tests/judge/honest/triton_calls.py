"""y = 2·x by Triton, called from Python."""

import torch
import triton
import triton.language as tl

from cuprof.backends.torch_bridge import as_tensor, on_current_stream


@triton.jit
def _doubled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)


_tuned = triton.autotune([triton.Config({"BLOCK": block}) for block in (512, 1024)], key=["n"])(_doubled)


@family.library("triton_plain", requires=("torch", "triton"))
def triton_plain(problem, tune, inputs, outputs):
    x, y = as_tensor(inputs["x"]), as_tensor(outputs["y"])

    def call():
        with on_current_stream():
            _doubled[(triton.cdiv(problem.n, 1024),)](x, y, problem.n, BLOCK=1024)

    return call


@family.library("triton_autotuned", requires=("torch", "triton"))
def triton_autotuned(problem, tune, inputs, outputs):
    x, y = as_tensor(inputs["x"]), as_tensor(outputs["y"])

    def call():
        with on_current_stream():
            _tuned[lambda meta: (triton.cdiv(problem.n, meta["BLOCK"]),)](x, y, problem.n)

    return call
