"""cuDNN's forward convolution through PyTorch, on CuPy's arrays, with the search over its algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuprof.backends.torch_bridge import as_tensor, get_torch, on_current_stream


def prepare(image: Any, filters: Any, output: Any) -> Callable[[], object]:
    """Let cuDNN try every algorithm in float32 for these shapes; return the convolution with the fastest.

    The operator is called below `torch.nn.functional`, where the precision is an argument and the result goes to a
    given tensor.
    """
    torch = get_torch()
    convolve = torch.ops.aten.cudnn_convolution.out

    def run(result: Any) -> None:
        with on_current_stream():
            convolve(tensors[0], tensors[1], [0, 0], [1, 1], [1, 1], 1, True, False, False, out=result)

    with on_current_stream():
        tensors = (as_tensor(image)[None], as_tensor(filters)[None])
        result = as_tensor(output)[None, None]
        trial = torch.empty_like(result)
    limit = torch.backends.cudnn.benchmark_limit
    torch.backends.cudnn.benchmark_limit = 0  # every algorithm, not the first ten
    try:
        run(trial)  # the search happens at the first call, and its choice is kept
    finally:
        torch.backends.cudnn.benchmark_limit = limit
    return lambda: run(result)
