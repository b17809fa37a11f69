"""Where things are: the folders that travel with cuprof, and those of the user's project."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cuprof.core.errors import ConfigError
from cuprof.core.files import open_regular

MARKER = "cuprof.toml"
"""The file at the top of a project; `cuprof init` writes it. It may hold `database = "<SQLAlchemy URL>"`."""

OWN_BUILDS = "CUPROF_OWN_BUILDS"
"""Environment variable of a process in a sandbox: the folder of cuprof's own compiled kernels."""

BUNDLED = ("conf", "kernels", "experiments", "db", "reports")
"""The folders that travel with cuprof: at the top of a checkout, under cuprof/_bundled in a wheel.

They hold Hydra's configuration, families (a folder each), studies (published numbers, findings), migrations with views
and queries, and page templates.
"""

MOST_BYTES = 16 << 10
"""Of the marker file, which holds a line; of 40 kB of dots Python's parser makes a gigabyte."""

DATABASES = (".sqlite", ".sqlite3", ".db")
"""Endings of files that are databases."""

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Project:
    """Name the folders of one project; lists put the user's own folder first and the bundled one behind it.

    Attributes:
        root: absolute path of the project's folder.
        database: SQLAlchemy URL from the project's marker file, or empty.
    """

    root: Path
    database: str = ""

    @property
    def database_url(self) -> str:
        """Return the URL of the project's database: the marker file's, else an SQLite file in db/."""
        return self.database or f"sqlite:///{self.root / 'db' / 'cuprof.sqlite'}"

    @property
    def database_file(self) -> Path | None:
        """Return the SQLite file of the project's database; None of a database on a server."""
        scheme, _, path = self.database_url.partition(":///")
        return Path(path) if scheme.startswith("sqlite") else None

    @property
    def artifacts(self) -> Path:
        """Return the folder of files that belong to database rows."""
        return self.root / "db" / "artifacts"

    @property
    def jobs(self) -> Path:
        """Return the folder where a launcher of several jobs keeps its files."""
        return self.root / "db" / "jobs"

    def folders(self, name: str) -> tuple[Path, ...]:
        """Return the project's folders of one name of `BUNDLED`."""
        own, shipped = self.root / name, bundled(name)
        if own.is_dir() and own.resolve() != shipped.resolve():
            return own, shipped
        return (shipped,)


def find_project(start: Path | None = None) -> Project:
    """Return the project that `start` (default: the current folder) lies in.

    That is the nearest folder upwards with a `cuprof.toml`; in a source checkout the checkout; else `start` itself.

    Raises:
        UsageError: the marker file cannot be read, is not valid TOML, or holds something unknown.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / MARKER).is_file():
            return Project(folder, _read_database(folder / MARKER, folder))
        if folder == checkout():
            return Project(folder)
    return Project(start)


def checkout() -> Path | None:
    """Return the source checkout that this package is imported from, or None if it was installed from a wheel."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "conf").is_dir() else None


def bundled(name: str) -> Path:
    """Return the folder of that name (one of `BUNDLED`) that travels with cuprof."""
    if name not in BUNDLED:
        raise ValueError(f"no bundled folder {name!r}; there are {', '.join(BUNDLED)}")
    root = checkout()
    return root / name if root else _PACKAGE / "_bundled" / name


def user_cache() -> Path:
    """Return cuprof's folder in the user's cache folder (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cuprof"


def kept_builds() -> Path:
    """Return `$CUPROF_CACHE`, or a folder in the user's cache."""
    return Path(os.environ.get("CUPROF_CACHE") or user_cache() / "cubin")


def own_builds() -> Path:
    """Return the folder of cuprof's own compiled kernels, which processes in a sandbox read too."""
    return Path(os.environ.get(OWN_BUILDS) or kept_builds() / "own")


def database_url(text: str) -> str:
    """Return the URL of an SQLite file that is named by its path; any other text as it is, to be read as a URL."""
    is_file = "//" not in text and Path(text).suffix in DATABASES
    return f"sqlite:///{Path(text).absolute()}" if is_file else text


def is_database(name: str) -> bool:
    """Return whether a file of that name is a database, or one that SQLite keeps beside it (.sqlite-wal)."""
    return os.path.splitext(name)[1].partition("-")[0] in DATABASES  # noqa: PTH122 - it is asked of a million files


def try_writing(folder: Path) -> None:
    """Raise OSError if no file can be made in the folder, or in the nearest one above it that exists.

    This tries a file, since permissions do not bind root; it does not make the folder.
    """
    with tempfile.TemporaryFile(dir=find_existing(folder)):
        pass


def find_existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    path = folder.absolute()
    return next(each for each in (path, *path.parents) if each.exists())


def _read_database(marker: Path, root: Path) -> str:
    with open_regular(marker) as file:
        text = file.read(MOST_BYTES + 1)
    if not text.strip() and len(text) <= MOST_BYTES:
        return ""
    import tomllib

    may = f'{marker} may hold database = "<SQLAlchemy URL>" and nothing else'
    if len(text) > MOST_BYTES:
        raise ConfigError(f"{may}: it has more than {MOST_BYTES} bytes")
    try:
        found = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{may}: {error}") from None
    database = found.pop("database", "")
    if found:
        raise ConfigError(f"{may}: it holds {next(iter(found))}")
    if not isinstance(database, str):
        raise ConfigError(f"{may}: write the URL in quotes")
    scheme, separator, path = database.partition(":///")
    if scheme == "sqlite" and separator and path and not path.startswith("/"):
        return f"sqlite:///{root / path}"
    return database
