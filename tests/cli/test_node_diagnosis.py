from __future__ import annotations

from typing import Any

import pytest

from cuprof.cli.doctor import compare_nodes

HERE = {
    "host": "login",
    "folder": "/project",
    "is_project": True,
    "python": "3.11.7",
    "cuprof": "0.1.0",
    "gpus": ["H200"],
    "database": {"health": "good", "detail": "db.example", "remedy": ""},
    "time": 100.0,
}


@pytest.mark.parametrize(
    ("changed", "url", "what", "health"),
    [
        ({}, "postgresql://db.example/cuprof", "", "good"),
        ({"python": "3.11.2", "time": 108.9}, "postgresql://db.example/cuprof", "", "good"),
        ({"is_project": False}, "postgresql://db.example/cuprof", "folder", "missing"),
        ({"python": "3.12.1"}, "postgresql://db.example/cuprof", "Python", "warning"),
        ({"cuprof": "0.2.0"}, "postgresql://db.example/cuprof", "cuprof", "missing"),
        ({"gpus": []}, "postgresql://db.example/cuprof", "GPUs", "missing"),
        ({"time": 90.0}, "postgresql://db.example/cuprof", "clock", "warning"),
        ({"host": "node7"}, "sqlite:////project/db/cuprof.sqlite", "database", "missing"),
        ({"host": "node7"}, "postgresql://db.example/cuprof", "", "good"),
    ],
)
def test_a_node_is_judged_by_what_is_here(changed: dict[str, Any], url: str, what: str, health: str) -> None:
    found = compare_nodes({**HERE, **changed}, HERE, 1, url, (99.0, 107.0))
    bad = {each.what: each.health.value for each in found if each.health.value != "good"}
    assert bad == ({f"node's {what}": health} if what else {})
