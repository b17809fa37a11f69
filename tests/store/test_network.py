"""Which file systems are networks', and which of them a file is on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from cuprof.store.connection import describe_network, find_filesystem


def mount(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[Path | str, str]) -> None:
    found = [SimpleNamespace(mountpoint=str(place), fstype=kind) for place, kind in (("/", "ext4"), *mounts)]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: found)


def test_this_machine_answers(tmp_path: Path) -> None:
    find_filesystem(tmp_path / "none" / "a.sqlite")


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "9p", "fuse.sshfs", "fuse.glusterfs"]
)
def test_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mount(monkeypatch, (tmp_path, kind))
    line = describe_network(tmp_path / "not yet" / "a.sqlite")
    assert f"network file system ({kind})" in line
    assert "\n" not in line


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuse.fuse-overlayfs", "fuseblk"])
def test_local_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mount(monkeypatch, (tmp_path.parent, "nfs"), (tmp_path, kind))
    assert describe_network(tmp_path / "a.sqlite") == ""


def test_links_are_followed_and_the_last_mount_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    mount(monkeypatch, (tmp_path / "far", "ext4"), (tmp_path / "far", "nfs4"))
    assert find_filesystem(tmp_path / "link" / "a.sqlite") == "nfs4"


def test_what_cannot_be_read_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(all: bool) -> None:
        raise PermissionError

    monkeypatch.setattr(psutil, "disk_partitions", refuse)
    assert describe_network(tmp_path) == ""
