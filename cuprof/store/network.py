"""Whether a database file is on a network file system, where SQLite cannot protect it from several hosts.

WAL needs memory that all of its processes share, and locks that hold: https://sqlite.org/wal.html,
https://sqlite.org/faq.html#q5.
"""

from __future__ import annotations

from pathlib import Path

from cuprof.core.project import find_existing

NETWORKS = {
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs",
    "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs",
}  # fmt: skip
"""Types of file systems as Linux names them; those of FUSE are named "fuse.PROGRAM"."""
FUSE_NETWORKS = ("ceph", "davfs", "gcsfuse", "gluster", "juicefs", "mfs", "rclone", "s3", "sshfs")


def describe_network(file: Path) -> str:
    """Return a warning where the file is on a network file system, or will be; otherwise the empty text."""
    kind = find_filesystem(file)
    program = kind.removeprefix("fuse.")
    if kind not in NETWORKS and not (program != kind and program.startswith(FUSE_NETWORKS)):
        return ""
    return (
        f"database {file} lies on a network file system ({kind}), where sweeps of several hosts can damage it; keep it "
        "on a local disk or in PostgreSQL by store.url"
    )


def find_filesystem(file: Path) -> str:
    """Return the type of the file system that the file is on, or will be; empty where it is unknown."""
    import psutil

    place = find_existing(file).resolve()
    try:
        mounts = {Path(each.mountpoint): each.fstype for each in psutil.disk_partitions(all=True)}
    except OSError:
        return ""
    return next((mounts[folder] for folder in (place, *place.parents) if folder in mounts), "")
