"""cuDNN's forward convolution through PyTorch, on CuPy's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cuprof.backends.torch_bridge import as_tensor, compute_capability, get_torch, on_current_stream
from cuprof.errors import MissingDependencyError

TF32_CAPABILITY = (8, 0)


def prepare(
    inputs: Mapping[str, Any], outputs: Mapping[str, Any], padding: int, *, allow_tf32: bool
) -> Callable[[], object]:
    """Let cuDNN try every algorithm for these shapes; return the convolution with the fastest.

    The filters are laid out as cuDNN's NCHW wants them (M×C×R×S) here: they are constant in inference, so that their
    layout is preparation. The operator is called below `torch.nn.functional`, where the precision is an argument and
    the result goes to a given tensor.

    Raises:
        MissingDependencyError: TF32 is asked for and the GPU has none, where cuDNN would compute in float32.
    """
    torch = get_torch()
    if allow_tf32 and compute_capability() < TF32_CAPABILITY:
        own = ".".join(map(str, compute_capability()))
        raise MissingDependencyError("TF32", f"a GPU of compute capability 8.0 or more has it, this one is {own}")
    convolve = torch.ops.aten.cudnn_convolution.out
    pads = [padding, padding]

    def run(result: Any) -> None:
        with on_current_stream():
            convolve(image, filters, pads, [1, 1], [1, 1], 1, True, False, allow_tf32, out=result)

    with on_current_stream():
        image = as_tensor(inputs["input"])[None]
        permuted = as_tensor(inputs["filters"]).permute(0, 3, 1, 2)
        # Not contiguous(): for R = 1 or C = 1 it keeps strides that PyTorch takes for channels-last, and it would
        # convert the input at every call.
        filters = torch.empty(tuple(permuted.shape), dtype=permuted.dtype, device=permuted.device).copy_(permuted)
        output = as_tensor(outputs["output"])[None]
        trial = torch.empty_like(output)
    limit = torch.backends.cudnn.benchmark_limit
    torch.backends.cudnn.benchmark_limit = 0  # every algorithm, not the first ten
    try:
        run(trial)  # the search happens at the first call, and its choice is kept
    finally:
        torch.backends.cudnn.benchmark_limit = limit
    return lambda: run(output)
