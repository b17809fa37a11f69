"""What every test may use: a project of its own, the command line, and the reason why GPU tests cannot run here."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from subprocess import DEVNULL
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hypothesis import HealthCheck, settings
from jinja2 import Environment
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from cuprof.config.composer import Composer
from cuprof.core.plugins import list_plugins
from cuprof.core.project import Project, bundled
from cuprof.core.records import Calibration, Unavailable
from cuprof.engine import launch
from cuprof.engine.calibration import Calibrator, find_larger
from cuprof.engine.devices import _known
from cuprof.engine.executor import Executor
from cuprof.engine.worker_process import WorkerProcess
from cuprof.search.registry import GROUP
from cuprof.store.tables import METADATA
from cuprof.worker.messages import Calibrate
from tests.forked_workers import start_worker

TESTS = Path(__file__).parent

# How long an example takes says nothing where every core is busy.
settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")


@dataclass(frozen=True)
class Result:
    """What a command came to."""

    exit_code: int
    out: str
    err: str


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Where processes share all tests, let each import other files first: pytest rewrites what nobody has imported."""
    worker: dict[str, Any] = getattr(session.config, "workerinput", {})
    if not worker or sys.dont_write_bytecode or [Path(each).resolve() for each in session.config.args] != [TESTS]:
        return
    first, step = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for file in sorted(TESTS.rglob("test_*.py"))[first::step]:
        with suppress(Exception, pytest.skip.Exception):  # pytest imports it once more, and tells of it
            import_module(".".join(["tests", *file.relative_to(TESTS).with_suffix("").parts]))


@pytest.hookimpl(trylast=True)  # once it is known which are selected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `gpu` with the missing capability's name."""
    marked = [item for item in items if "gpu" in item.keywords]
    reason = missing_gpu() if marked else ""
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))
    items[:] = spread(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def spread(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return tests so that each process has some of those that have a limit of their own, which take long.

    Each begins with an equal part of all, in this order. One would do the long ones alone after the others have ended;
    and most of them wait for long, so they do not stand at the same place of each part.
    """
    long = [item for item in items if item.get_closest_marker("timeout")]
    rest = [item for item in items if not item.get_closest_marker("timeout")]
    bounds = [len(rest) * number // processes for number in range(processes + 1)]
    parts = []
    for number, (first, last) in enumerate(pairwise(bounds)):
        place = first + (last - first) * number // (2 * processes)
        parts += [*rest[first:place], *long[number::processes], *rest[place:last]]
    return parts


def pytest_collection_finish() -> None:
    """Look for garbage seldom, and not among what stays until the end: that took a tenth of the processor's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fork the workers that tests start in this process; those of GPU tests, and marked ones, import all themselves."""
    forks = not {"gpu", "own_workers"} & item.keywords.keys()
    if not forks:
        launch._discard_spares()  # which may be forked ones
    launch.subprocess = SimpleNamespace(Popen=start_worker, DEVNULL=DEVNULL) if forks else subprocess  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def patch() -> Iterator[pytest.MonkeyPatch]:
    """Return what replaces attributes until the last test has ended."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="session", autouse=True)
def _calibrated_once(patch: pytest.MonkeyPatch) -> None:
    """Measure once what the host can do: half a second of a processor for each sweep that has a database of its own.

    A time that this rules out has it measured again, as without this: the host may have been slow the first time.
    """
    measured: list[Calibration | Unavailable] = []

    def measure_again(calibrator: Calibrator, executor: Executor, backend: str) -> None:
        before = measured.copy()
        measured.clear()
        reconsider(calibrator, executor, backend)
        match before, measured:
            case [Calibration() as one], [Calibration() as other]:
                measured[:] = [find_larger(one, other)]
            case [_], _:
                measured[:] = before

    def answer(worker: WorkerProcess, question: Any, *kinds: type, **limit: float) -> Any:
        if question != Calibrate("cpu"):
            return ask(worker, question, *kinds, **limit)
        if not measured:
            measured.append(ask(worker, question, *kinds, **limit))
        return measured[0]

    ask, reconsider = WorkerProcess.ask, Calibrator.reconsider
    patch.setattr(WorkerProcess, "ask", answer)
    patch.setattr(Calibrator, "reconsider", measure_again)


@pytest.fixture(autouse=True)
def _devices_are_asked_anew() -> None:
    """Forget the devices that a worker described to an earlier test, which may have had others."""
    _known.clear()


@pytest.fixture(scope="session", autouse=True)
def _files_of_settings_are_parsed_once(patch: pytest.MonkeyPatch) -> None:
    """Parse each text of settings once: Hydra reads two dozen files for a command, and each takes milliseconds.

    When it looks for its plugins, it imports the classes of its sources anew: those that it takes are known then.
    """
    parsed: dict[tuple[str, str, str, bytes], bytes] = {}

    def parse_once(kind: type[ConfigSource]) -> Callable[[ConfigSource, str], ConfigResult]:
        def load_once(source: ConfigSource, config_path: str) -> ConfigResult:
            file = Path(source.path, source._normalize_file_name(config_path))
            text = file.read_bytes() if file.is_file() else b""  # a package's own does not change
            key = kind.scheme(), source.provider, str(file), text
            if key not in parsed:
                parsed[key] = pickle.dumps(load(source, config_path))
            return pickle.loads(parsed[key])  # type: ignore[no-any-return]

        load = kind.load_config
        return load_once

    Plugins.instance()
    for scheme in ("file", "pkg"):
        kind = SourcesRegistry.instance().resolve(scheme)
        patch.setattr(kind, "load_config", parse_once(kind))


@pytest.fixture(scope="session", autouse=True)
def _settings_are_composed_once(patch: pytest.MonkeyPatch) -> None:
    """Compose the same settings over files of the same text once: it takes Hydra a fifth of a second of a processor.

    What options show has the folders' own names in it and is composed each time, and so is what does not compose.
    """
    composed: dict[Any, bytes] = {}

    def read(folder: Path) -> Any:
        if folder == bundled("conf"):
            return str(folder)  # it does not change
        return sorted((str(file.relative_to(folder)), file.read_bytes()) for file in folder.rglob("*.yaml"))

    def compose_once(composer: Composer, overrides: Sequence[str]) -> Any:
        if {"cfg", "info"} & composer.options.keys():
            return compose(composer, overrides)
        installed = [*list_plugins(GROUP), *list_plugins("cuprof.launchers")]
        key = pickle.dumps((composer._main, [*overrides], [read(each) for each in composer.folders], installed))
        if key not in composed:
            composed[key] = pickle.dumps(compose(composer, overrides))
        return pickle.loads(composed[key])

    compose = Composer.compose
    patch.setattr(Composer, "compose", compose_once)


@pytest.fixture(scope="session", autouse=True)
def _statements_are_compiled_once(patch: pytest.MonkeyPatch) -> None:
    """Let all SQLite files share compiled statements: a command has one file, and the tests have thousands."""
    compiled: Any = sa.util.LRUCache(2000)

    def make_engine(*arguments: Any, **settings: Any) -> sa.Engine:
        engine = make(*arguments, **settings)
        if engine.dialect.name == "sqlite":
            engine._compiled_cache = compiled
        return engine

    make = sa.create_engine
    patch.setattr(sa, "create_engine", make_engine)
    patch.setattr(SQLiteDialect, "__eq__", lambda one, other: type(one) is type(other))
    patch.setattr(SQLiteDialect, "__hash__", lambda one: hash(type(one)))


@pytest.fixture(scope="session", autouse=True)
def _tables_are_compiled_once(patch: pytest.MonkeyPatch) -> None:
    """Compile the statements that make the tables once, which SQLAlchemy never keeps: thousands of files are made."""
    compiled: dict[str, list[str]] = {}

    def make_tables(connection: sa.Connection, *, checkfirst: bool) -> None:
        kind = connection.dialect.name
        if kind not in compiled:
            told = compiled[kind] = []
            note = sa.create_mock_engine(
                connection.engine.url, lambda each, *_: told.append(str(each.compile(dialect=connection.dialect)))
            )
            make(note, checkfirst=checkfirst)
        for statement in compiled[kind]:
            connection.exec_driver_sql(statement)

    make = METADATA.create_all
    patch.setattr(METADATA, "create_all", make_tables)


@pytest.fixture(scope="session", autouse=True)
def _templates_are_compiled_once(patch: pytest.MonkeyPatch) -> None:
    """Compile the text of each template once: for a page it takes a fifth of the time."""
    compiled: dict[tuple[str, str | None], Any] = {}

    def compile_once(one: Environment, source: Any, name: Any = None, filename: Any = None, **how: Any) -> Any:
        if not isinstance(source, str) or not filename or how:
            return compile_source(one, source, name, filename, **how)
        if (source, filename) not in compiled:
            compiled[source, filename] = compile_source(one, source, name, filename)
        return compiled[source, filename]

    compile_source = Environment.compile
    patch.setattr(Environment, "compile", compile_once)


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard() -> None:
    """Hear the signals that tests send, though a shell's background job ignores SIGINT, and nohup SIGHUP."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _alone_on_the_host(patch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let no sweep of a test wait for one outside of this run, or tell of what else the host does."""
    patch.setenv("CUPROF_LOCKS", str(tmp_path_factory.mktemp("locks")))
    patch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))


@cache
def missing_gpu() -> str:
    """Return what keeps CUDA variants from running here, or the empty text."""
    from cuprof.backends.cuda.presence import find_driver

    driver = find_driver()
    if driver is None or not driver.gpus:
        return "no NVIDIA GPU"
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed"
    return "" if cupy.cuda.runtime.getDeviceCount() else "CuPy sees no CUDA device"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the tables and nothing in them, since a copy is made much faster than an upgrade."""
    from cuprof.store.store import Store

    path = tmp_path_factory.mktemp("template") / "empty.sqlite"
    Store.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Make an empty project with a space and an umlaut in its path, and make it the current folder."""
    root = tmp_path / "my prüf"
    root.mkdir()
    (root / "cuprof.toml").touch()
    monkeypatch.chdir(root)
    return Project(root)


def give_database(project: Project, file: Path) -> str:
    """Let a copy of an SQLite file be a project's database; return its URL."""
    place = project.root / "db" / "cuprof.sqlite"
    place.parent.mkdir(exist_ok=True)
    shutil.copy(file, place)
    return project.database_url


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs a command line in this process."""
    from cuprof.cli.main import main

    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*argv: str) -> Result:
        capsys.readouterr()
        try:
            code = main(argv)
        except SystemExit as ended:  # argparse after --help
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
