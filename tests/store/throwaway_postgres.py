"""A throw-away PostgreSQL server on a unix socket, for the tests that run on both databases."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

MEMORY, LEAST_BYTES = Path("/dev/shm"), 8 * 2**30


def find_binaries() -> Path | None:
    """Return the folder of the newest installed server's programs, or None."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).parent)
    return max(folders, key=lambda folder: [int(part) for part in re.findall(r"\d+", str(folder))], default=None)


class Server:
    """Run one cluster from `start` to `stop`; root hands it to the user postgres, as the server demands."""

    def __init__(self, binaries: Path, settings: str = "-c fsync=off") -> None:
        self._binaries, self._settings = binaries, settings
        # A socket's path may not be longer than 107 bytes, so not pytest's deep folders. A database takes 8 MB in some
        # 300 files, which are made and removed far faster in memory.
        roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > LEAST_BYTES
        self._folder = Path(tempfile.mkdtemp(prefix="cuprof-pg-", dir=MEMORY if roomy else None))
        self._prefix: list[str] = []
        if os.getuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            self._prefix = ["runuser", "-u", "postgres", "--"]

    def start(self) -> None:
        """Make the cluster and start it; it listens on the socket alone."""
        data = str(self._folder / "data")
        self._call("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8")
        self.resume()

    def halt(self) -> None:
        """Stop the server and keep its data."""
        self._call("pg_ctl", "-D", str(self._folder / "data"), "-m", "fast", "-w", "-t", "100", "stop")

    def resume(self) -> None:
        """Start the server on its data."""
        data = str(self._folder / "data")
        options = f"-c listen_addresses='' -c unix_socket_directories='{self._folder}' {self._settings}"
        log = str(self._folder / "log")
        self._call("pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "-t", "100", "start")

    def stop(self) -> None:
        """Stop the server and remove its files."""
        program, data = str(self._binaries / "pg_ctl"), str(self._folder / "data")
        # Not waited for: where nobody collects ended processes, pg_ctl takes the dead server for a living one.
        command = [*self._prefix, program, "-D", data, "-m", "immediate", "-W", "stop"]
        subprocess.run(command, check=False, capture_output=True, cwd="/")
        shutil.rmtree(self._folder, ignore_errors=True)

    def make_database(self, name: str, template: str = "template0") -> str:
        """Make a database, empty or like another one, and return its URL."""
        self._call("createdb", "-h", str(self._folder), "-U", "postgres", "-T", template, name)
        return f"postgresql+psycopg://postgres@/{name}?host={self._folder}"

    def _call(self, program: str, *arguments: str) -> None:
        command = [*self._prefix, str(self._binaries / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr or done.stdout}")
