"""The matrix product tuned by `@triton.autotune` alone, as a script that uses it does; only the process is timed."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from typing import Any

from benchmarks.space import PROJECT
from benchmarks.tools.answer import answer

N = 2048


def work(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration that was chosen, and how many were tried."""
    import torch

    spec = importlib.util.spec_from_file_location("matmul", PROJECT / "kernels" / "triton_matmul" / "matmul.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["matmul"] = module
    spec.loader.exec_module(module)
    a, b, c = (torch.randn(N, N, device="cuda", dtype=torch.float16) for _ in range(3))
    module.matmul[lambda meta: (-(-N // meta["BLOCK_M"]) * -(-N // meta["BLOCK_N"]),)](a, b, c, N)
    torch.cuda.synchronize()
    return {"chosen": module.matmul.best_config.all_kwargs(), "configurations": len(module.CONFIGS)}


if __name__ == "__main__":
    sys.exit(answer(work))
