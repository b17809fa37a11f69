"""y = 2·x by PyTorch."""

import torch

from cuprof.backends.torch_bridge import as_tensor, on_current_stream


def _tensors(inputs, outputs):
    return as_tensor(inputs["x"]), as_tensor(outputs["y"])


def _called(action):
    def call():
        with on_current_stream():
            action()

    return call


@family.library("torch_out", requires="torch")
def torch_out(problem, tune, inputs, outputs):
    x, y = _tensors(inputs, outputs)
    return _called(lambda: torch.mul(x, 2.0, out=y))


@family.library("torch_eager", requires="torch")
def torch_eager(problem, tune, inputs, outputs):
    x, y = _tensors(inputs, outputs)
    return _called(lambda: y.copy_(x * 2.0))


@family.library("torch_in_place", requires="torch")
def torch_in_place(problem, tune, inputs, outputs):
    x, y = _tensors(inputs, outputs)
    return _called(lambda: y.copy_(x).mul_(2.0))


@family.library("torch_side_stream", requires="torch")
def torch_side_stream(problem, tune, inputs, outputs):
    x, y = _tensors(inputs, outputs)
    side = torch.cuda.Stream()

    def action():
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            torch.add(x, x, out=y)
        current.wait_stream(side)

    return _called(action)


@family.library("torch_compiled", requires="torch")
def torch_compiled(problem, tune, inputs, outputs):
    x, y = _tensors(inputs, outputs)
    doubled = torch.compile(lambda x, y: y.copy_(x + x))
    return _called(lambda: doubled(x, y))


@family.library("torch_module", requires="torch")
def torch_module(problem, tune, inputs, outputs):
    x, y = _tensors(inputs, outputs)
    layer = torch.nn.Conv1d(1, 1, 1, bias=False, device=x.device)
    with torch.no_grad():
        layer.weight.fill_(2.0)

    def action():
        with torch.no_grad():
            y.copy_(layer(x.view(1, 1, -1)).view(-1))

    return _called(action)
