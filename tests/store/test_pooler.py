"""PgBouncer in transaction mode gives each transaction of a connection to another session of the server."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url
from store_samples import FACTS, make_outcome, make_trial
from throwaway_postgres import Server

from cuprof.core.errors import StoreError
from cuprof.results.queries import query
from cuprof.store.store import Store

TRIALS = [make_trial(n=n) for n in range(40)]


@pytest.fixture
def pooled_url(postgres: Server, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a database behind PgBouncer, whose two sessions all connections share."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    url = make_url(postgres.make_database(f"pooled_{tmp_path.name}"))
    folder = Path(str(url.query["host"]))
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n{url.database} = host={folder} dbname={url.database} user=postgres\n[pgbouncer]\n"
        f"listen_port = 6543\nunix_socket_dir = {folder}\nauth_type = any\npool_mode = transaction\n"
        f"default_pool_size = 2\nlogfile = {folder / 'pooler.log'}\n"
    )
    process = subprocess.Popen(["runuser", "-u", "postgres", "--", program, str(settings)], stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 100
        while not (folder / ".s.PGSQL.6543").exists() and time.monotonic() < give_up:
            time.sleep(0.05)
        yield f"postgresql+psycopg://postgres@/{url.database}?host={folder}&port=6543"
    finally:
        process.terminate()
        process.wait(100)


def test_two_processes_share_a_sweep_behind_a_pooler(pooled_url: str) -> None:
    with Store.open(pooled_url) as one, Store.open(pooled_url) as two:
        sweep, (first,) = one.join_sweep(FACTS, ["first"])
        _, (second,) = two.join_sweep(FACTS, ["second"])
        one.enlist(sweep, TRIALS)
        for place, trial in enumerate(TRIALS):  # more often than the driver executes a statement before it prepares it
            store, station = ((one, first), (two, second))[place % 2]
            assert store.claim(sweep, station, {trial.identity: place}).granted == {trial.identity}
            store.record(sweep, make_outcome(trial))
        with one.engine.begin() as connection:
            assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "30s"
    assert query(pooled_url, "SELECT COUNT(*) AS runs FROM run")["runs"].tolist() == [len(TRIALS)]


def test_it_is_read_only_there_too(pooled_url: str) -> None:
    Store.open(pooled_url).close()
    with Store.open(pooled_url, read_only=True) as store, pytest.raises(StoreError, match="read-only"):
        store.begin_sweep(FACTS)
