"""What git says of the source that was swept."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cuprof.engine.provenance import git_state


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *settings, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_commit_branch_and_changes_are_told(tmp_path: Path) -> None:
    assert git_state(tmp_path) == {}
    git(tmp_path, "init", "--initial-branch", "work/of-mine")
    assert git_state(tmp_path) == {}
    (tmp_path / "a b").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_state(tmp_path) == {"commit": commit, "branch": "work/of-mine", "dirty": False}
    (tmp_path / "new").write_text("not git's")
    assert not git_state(tmp_path)["dirty"]
    (tmp_path / "a b").write_text("2")
    assert git_state(tmp_path)["dirty"]
    git(tmp_path, "checkout", "--detach")
    assert git_state(tmp_path) == {"commit": commit, "branch": "HEAD", "dirty": True}
