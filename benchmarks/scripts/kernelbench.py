"""KernelBench's level 2, problem 1, written as it is there: a convolution, ReLU and a bias, of 0.5 and 1 GB."""

from __future__ import annotations

import torch

import cuprof


class Model(torch.nn.Module):
    """Convolve, cut off below zero, and add a bias."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(64, 128, 3)
        self.bias = torch.nn.Parameter(torch.randn(128, 1, 1))

    def forward(self, x):
        """Return the activations."""
        return torch.relu(self.conv(x)) + self.bias


class ModelNew(Model):
    """The same, with the additions in place."""

    def forward(self, x):
        """Return the activations."""
        return self.conv(x).relu_().add_(self.bias)


def inputs(batch=128, size=128):
    """Return images."""
    return [torch.rand(batch, 64, size, size, device="cuda")]


torch.manual_seed(0)
model = Model().cuda().eval()
new = ModelNew().cuda().eval()
new.load_state_dict(model.state_dict())
cuprof.compare(model, new, torch.compile(model), inputs=inputs, tolerance=1e-2)
