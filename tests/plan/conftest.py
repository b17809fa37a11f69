"""A family with CUDA and OpenCL variants, made in a folder for the tests that need one."""

from pathlib import Path

import pytest

from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.families import Family
from cuprof.families.origin import load_family

FAMILY = '''
import numpy as np
from cuprof.families import Array, Axis, Family, Fill, Launch, Program, Signature, Tolerance, Tunable

family = Family(
    name="scale", title="y = 2x", axes=(Axis("n", default=1024, low=1, high=2**40),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n, dtype=np.float32)},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"].astype(np.float64)},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
)
BLOCK = Tunable("block", (64, 128, 256), default=128)


@family.cuda("plain", source="plain.cu", tunables=(BLOCK,))
def plain(problem, tune):
    """One thread an element."""
    blocks = -(-problem.n // tune.block)
    return Program(
        steps=(Fill("y"), Launch("scale", (blocks,), (tune.block,), ("x", "y", np.int64(problem.n)))),
        defines={"BLOCK": tune.block},
    )


@family.opencl("open", source="plain.cl", tunables=(BLOCK,))
def open_(problem, tune):
    """One work-item an element."""
    return Program(
        steps=(Launch("scale", (8,), (tune.block,), ("x", "part", 1.5)),),
        scratch={"part": Array((problem.n,), "float32")}, results={"y": "part"},
    )


@family.cpu("host")
def host(problem, tune, inputs, outputs):
    """One call."""
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])
'''


@pytest.fixture
def devices():
    """Return a CUDA device, a CPU, and an OpenCL that is not there."""
    return {
        "cuda": DeviceFacts(
            "cuda", 0, "NVIDIA Example", memory_bytes=2**34, identity={"name": "Example", "driver": "580.1"}
        ),
        "cpu": DeviceFacts("cpu", 0, "Example CPU", memory_bytes=2**36, identity={"name": "Example CPU"}),
        "opencl": Unavailable("no OpenCL platform was found", "apt install pocl-opencl-icd"),
    }


@pytest.fixture
def make_scale(tmp_path):
    """Return a function that writes the family, with texts replaced, and loads it."""

    def make(*changes: tuple[str, str]) -> Family:
        return write_scale(tmp_path, *changes)

    return make


def write_scale(folder: Path, *changes: tuple[str, str]) -> Family:
    body = FAMILY
    for old, new in changes:
        assert old in body
        body = body.replace(old, new)
    folder = folder / "scale"
    folder.mkdir(exist_ok=True)
    (folder / "family.py").write_text(body, encoding="utf-8")
    for name in ("plain.cu", "plain.cl"):
        if not (folder / name).exists():
            (folder / name).write_text(f"// {name}\n", encoding="utf-8")
    return load_family(folder)
