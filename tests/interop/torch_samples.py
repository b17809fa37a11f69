"""Definitions in the schema of both benchmarks, with solutions in Triton, CUDA C++ and PyTorch."""

from __future__ import annotations

from typing import Any

NORM_REFERENCE = """
import torch


@torch.no_grad()
def run(hidden_states, weight):
    wide = hidden_states.to(torch.float32)
    scale = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + 1e-5)
    return (wide * scale * weight.to(torch.float32)).to(hidden_states.dtype)
"""
NORM_TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def _norm(x, weight, y, size: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, size)
    wide = tl.load(x + row * size + columns).to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / size + 1e-5)
    tl.store(y + row * size + columns, (wide * scale * tl.load(weight + columns).to(tl.float32)).to(tl.bfloat16))


def run(hidden_states, weight):
    output = torch.empty_like(hidden_states)
    _norm[(hidden_states.shape[0],)](hidden_states, weight, output, hidden_states.shape[1], num_warps=8)
    return output
"""
NORM_WRONG = """
import torch


def run(hidden_states, weight):
    return torch.nn.functional.rms_norm(hidden_states, weight.shape, eps=1e-5)
"""
NORM: dict[str, Any] = {
    "name": "rmsnorm_h2048",
    "op_type": "rmsnorm",
    "axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 2048}},
    "inputs": {
        "hidden_states": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"},
        "weight": {"shape": ["hidden_size"], "dtype": "bfloat16"},
    },
    "outputs": {"output": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"}},
    "reference": NORM_REFERENCE,
}
SILU_REFERENCE = """
import torch


def run(gate, up):
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).half()
"""
SILU_KERNEL = """
__global__ void silu_mul(const __half *gate, const __half *up, __half *out, long count) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < count) {
    float g = __half2float(gate[i]);
    out[i] = __float2half(g / (1.0f + __expf(-g)) * __half2float(up[i]));
  }
}
"""
SILU_TORCH_KERNEL = (
    "#include <cuda_fp16.h>\n"
    + SILU_KERNEL
    + """
void launch(const void *gate, const void *up, void *out, long count, cudaStream_t stream) {
  silu_mul<<<(count + 255) / 256, 256, 0, stream>>>((const __half *)gate, (const __half *)up, (__half *)out, count);
}
"""
)
SILU_TORCH_MAIN = """
#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/utils/pybind.h>

void launch(const void *gate, const void *up, void *out, long count, cudaStream_t stream);

void run(const at::Tensor &gate, const at::Tensor &up, at::Tensor out) {
  launch(gate.data_ptr(), up.data_ptr(), out.data_ptr(), gate.numel(), c10::cuda::getCurrentCUDAStream());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
SILU_FFI = (
    """#include <cuda_fp16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
"""
    + SILU_KERNEL
    + """
void run(tvm::ffi::TensorView gate, tvm::ffi::TensorView up, tvm::ffi::TensorView out) {
  DLDevice device = gate.device();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  long count = gate.size(0) * gate.size(1);
  silu_mul<<<(count + 255) / 256, 256, 0, stream>>>((const __half *)gate.data_ptr(), (const __half *)up.data_ptr(),
                                                    (__half *)out.data_ptr(), count);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
)
SILU: dict[str, Any] = {
    "name": "silu_and_mul_h2048",
    "axes": {"rows": {"type": "var"}, "hidden": {"type": "const", "value": 2048}},
    "inputs": {
        "gate": {"shape": ["rows", "hidden"], "dtype": "float16"},
        "up": {"shape": ["rows", "hidden"], "dtype": "float16"},
    },
    "outputs": {"out": {"shape": ["rows", "hidden"], "dtype": "float16"}},
    "reference": SILU_REFERENCE,
}
ADD_REFERENCE = """
import torch


def run(states, updates, indices, scale):
    result = states.float().clone()
    result[indices] += updates.float() * scale
    return {"result": result.to(states.dtype)}


def make(axes_and_scalars, device):
    tokens, updates, hidden = (axes_and_scalars[name] for name in ("tokens", "updates", "hidden"))
    return {
        "states": torch.randn(tokens, hidden, device=device, dtype=torch.bfloat16),
        "updates": torch.randn(updates, hidden, device=device, dtype=torch.bfloat16),
        "indices": torch.randperm(tokens, device=device)[:updates].to(torch.int64),
        "scale": 0.5,
    }
"""
ADD_TORCH = """
import torch


def run(states, updates, indices, scale, result):
    result.copy_(states)
    result.index_add_(0, indices, updates, alpha=scale)
"""
ADD: dict[str, Any] = {
    "name": "index_add_h512",
    "axes": {
        "tokens": {"type": "var"},
        "updates": {"type": "expr", "expression": "tokens // 4"},
        "hidden": {"type": "const", "value": 512},
    },
    "custom_inputs_entrypoint": "make",
    "inputs": {
        "states": {"shape": ["tokens", "hidden"], "dtype": "bfloat16"},
        "updates": {"shape": ["updates", "hidden"], "dtype": "bfloat16"},
        "indices": {"shape": ["updates"], "dtype": "int64"},
        "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"result": {"shape": ["tokens", "hidden"], "dtype": "bfloat16"}},
    "reference": ADD_REFERENCE,
}


def solution(definition: dict[str, Any], name: str, sources: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Return a solution whose entry point is `run` of the last source."""
    return {
        "name": name,
        "definition": definition["name"],
        "author": "somebody",
        "spec": {"target_hardware": ["LOCAL"], "entry_point": f"{list(sources)[-1]}::run", **spec},
        "sources": [{"path": path, "content": text} for path, text in sources.items()],
    }


def workloads(definition: dict[str, Any], axis: str, kind: str, sizes: tuple[int, ...] = (16, 1024)) -> list[Any]:
    """Return a workload a size."""
    inputs = {name: {"type": kind} for name in definition["inputs"]}
    return [{"uuid": f"w{size}", "axes": {axis: size}, "inputs": inputs} for size in sizes]


CUDA = {"kernel.cu": SILU_TORCH_KERNEL, "main.cpp": SILU_TORCH_MAIN}
SOL_EXECBENCH = {
    "triton": (NORM, workloads(NORM, "batch_size", "random"), [
        solution(NORM, "one_row", {"kernel.py": NORM_TRITON}, languages=["triton"], destination_passing_style=False),
        solution(NORM, "no_weight", {"kernel.py": NORM_WRONG}, languages=["pytorch"], destination_passing_style=False),
    ]),
    "cuda": (SILU, workloads(SILU, "rows", "random"), [
        solution(SILU, "elementwise", CUDA, languages=["cuda_cpp"], binding="torch"),
    ]),
    "torch": (ADD, workloads(ADD, "tokens", "custom"), [
        solution(ADD, "index_add", {"main.py": ADD_TORCH}, languages=["pytorch"]),
    ]),
}  # fmt: skip
FLASHINFER_BENCH = {
    "triton": (NORM, workloads(NORM, "batch_size", "random"), [
        solution(NORM, "one_row", {"main.py": NORM_TRITON}, language="triton", destination_passing_style=False),
        solution(NORM, "no_weight", {"main.py": NORM_WRONG}, language="python", destination_passing_style=False),
    ]),
    "cuda": (SILU, workloads(SILU, "rows", "random"), [
        solution(SILU, "elementwise", {"kernel.cu": SILU_FFI}, language="cuda"),  # its sources tell the binding
    ]),
    "torch": (ADD, workloads(ADD, "tokens", "custom"), [
        solution(ADD, "index_add", {"main.py": ADD_TORCH}, language="python"),
    ]),
}  # fmt: skip
"""Form of the solution → definition, workloads, solutions."""
