"""A definition in the schema of both benchmarks, with workloads and solutions that need NumPy alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

REFERENCE = """
import numpy as np


def run(x, weight, eps):
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(-1, keepdims=True) + eps) * weight
"""
CUSTOM = (
    REFERENCE
    + """

def make(axes_and_scalars, device):
    shape = axes_and_scalars["rows"], axes_and_scalars["hidden"]
    x = np.random.standard_normal(shape).astype(np.float32)
    return {"x": x, "weight": np.ones(shape[1], np.float32), "eps": 1e-6}
"""
)
DEFINITION: dict[str, Any] = {
    "name": "rmsnorm_h64",
    "op_type": "rmsnorm",
    "description": "Root mean square normalisation.",
    "axes": {
        "rows": {"type": "var", "description": None},
        "hidden": {"type": "const", "value": 64},
        "half": {"type": "expr", "expression": "hidden // 2"},
    },
    "inputs": {
        "x": {"shape": ["rows", "hidden"], "dtype": "float32"},
        "weight": {"shape": ["hidden"], "dtype": "float32"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "hidden"], "dtype": "float32"}},
    "constraints": ["rows < 1000", "x.max() < 9"],
    "reference": REFERENCE,
    "tags": ["status:verified"],
}
RANDOM = {"x": {"type": "random"}, "weight": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-6}}
WORKLOADS: list[dict[str, Any]] = [
    {"uuid": "aaaa-1", "axes": {"rows": 4}, "inputs": RANDOM},
    {"uuid": "bbbb-2", "axes": {"rows": 32}, "inputs": RANDOM, "correctness": {"max_atol": 1e-5, "max_rtol": 1e-5}},
]
RETURNING = "from steps import scale\n\n\ndef run(x, weight, eps):\n    return scale(x, eps) * weight\n"
STEPS = (
    "import numpy as np\n\n\n"
    "def scale(x, eps):\n    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps))\n"
)
WRITING = """import numpy as np


def run(x, weight, eps, y):
    np.multiply(x, 1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)), out=y)
    np.multiply(y, weight, out=y)
"""


def solution(name: str, sources: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Return a solution whose entry point is `run` of the first source."""
    first = next(iter(sources))
    return {
        "name": name,
        "definition": DEFINITION["name"],
        "author": "somebody",
        "spec": {"language": "python", "target_hardware": ["LOCAL"], "entry_point": f"{first}::run", **spec},
        "sources": [{"path": path, "content": text} for path, text in sources.items()],
    }


SOLUTIONS = [
    solution("returning", {"main.py": RETURNING, "steps.py": STEPS}, destination_passing_style=False),
    solution("writing", {"src/kernel.py": WRITING}),
    solution("no weight", {"main.py": WRITING.replace("    np.multiply(y, weight, out=y)\n", "")}),
]


def write_beside(folder: Path, definition: Any = None, workloads: Any = None, solutions: Any = None) -> Path:
    """Write the files as SOL-ExecBench lays them out; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "definition.json").write_text(json.dumps(definition or DEFINITION))
    lines = [json.dumps(each) for each in workloads or WORKLOADS]
    (folder / "workload.jsonl").write_text("\n".join(lines) + "\n")
    for each in SOLUTIONS if solutions is None else solutions:
        (folder / f"solution_{each['name'].replace(' ', '_')}.json").write_text(json.dumps(each))
    return folder


def write_trace_set(root: Path) -> Path:
    """Write the files as a trace set of FlashInfer-Bench has them; return its root."""
    name = DEFINITION["name"]
    for place, text in {
        f"definitions/rmsnorm/{name}.json": json.dumps(DEFINITION),
        f"workloads/rmsnorm/{name}.jsonl": "\n".join(
            json.dumps({"definition": name, "workload": each, "solution": None, "evaluation": None})
            for each in WORKLOADS
        ),
        **{f"solutions/me/rmsnorm/{name}/{n}.json": json.dumps(each) for n, each in enumerate(SOLUTIONS)},
    }.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    return root
