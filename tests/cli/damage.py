"""Ways in which a database file can be wrong, each repeatable by its seed."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

TEXTS = (
    "",
    "{",
    "[1, 2",
    '{"a": }',
    "null",
    "3",
    '"x"',
    "[]",
    "NaN",
    "\ud7ff",
    "x" * 5000,
    "-1",
    "0001-99-99",
    "[[[]]]",
)
VALUES = (None, -1, 0, 2**62, 1e308, -1e308, float("inf"), 1e-300, "many", b"\xff\xfe", "")


def damage(path: Path, seed: int) -> str:
    """Damage the file and say how."""
    chosen = random.Random(seed)
    way = (flip, truncate, drop, garble_json, garble, garble, delete, garble_schema)[seed % 8]
    return f"{seed}: {way.__name__} {way(path, chosen)}"


def flip(path: Path, chosen: random.Random) -> str:
    """Replace bytes; those of the header in every other file are spared, so that more is read."""
    data = bytearray(path.read_bytes())
    count = chosen.choice((1, 10, 100, 1000))
    for _ in range(count):
        data[chosen.randrange(chosen.choice((0, 100)), len(data))] = chosen.randrange(256)
    path.write_bytes(data)
    return str(count)


def truncate(path: Path, chosen: random.Random) -> str:
    """Cut the file short."""
    data = path.read_bytes()
    length = chosen.choice((0, 10, 99, 4096, chosen.randrange(len(data)), 4096 * chosen.randrange(len(data) // 4096)))
    path.write_bytes(data[:length])
    return str(length)


def drop(path: Path, chosen: random.Random) -> str:
    """Drop a table or a view."""
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        kind, name = chosen.choice(found)
        database.execute(f"DROP {kind} {name}")
        database.commit()
    return name


def garble_json(path: Path, chosen: random.Random) -> str:
    """Put text that is not JSON, or JSON of another form, into a column of JSON."""
    return _change(path, chosen, TEXTS, lambda kind: kind == "JSON")


def garble(path: Path, chosen: random.Random) -> str:
    """Put a value of another kind, or one that is out of all bounds, into any column."""
    return _change(path, chosen, VALUES + TEXTS, lambda kind: True)


def delete(path: Path, chosen: random.Random) -> str:
    """Delete rows that others refer to."""
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        name, is_all = chosen.choice(names), chosen.random() < 0.5
        database.create_function("chance", 0, lambda: chosen.randrange(2))  # SQLite's own random() has no seed
        database.execute(f"DELETE FROM {name} WHERE {'1' if is_all else 'chance()'}")
        database.commit()
    return name


def garble_schema(path: Path, chosen: random.Random) -> str:
    """Change a character of a table's or a view's definition."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA writable_schema=ON")
        rows = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        name, sql = chosen.choice(rows)
        place = chosen.randrange(len(sql))
        garbled = sql[:place] + chosen.choice("(,)x ';") + sql[place + 1 :]
        database.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (garbled, name))
        database.commit()
    return f"{name} at {place}"


def _change(path: Path, chosen: random.Random, values: tuple, fits) -> str:  # type: ignore[no-untyped-def, type-arg]
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA ignore_check_constraints=ON")
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [
            (table, column[1])
            for table in tables
            for column in database.execute(f"PRAGMA table_info({table})")
            if fits(column[2])
        ]
        for _ in range(50):
            (table, column), value = chosen.choice(columns), chosen.choice(values)
            try:
                database.execute(f"UPDATE {table} SET {column} = ?", (value,))
            except sqlite3.IntegrityError:
                continue
            database.commit()
            break
    return f"{table}.{column} = {value!r:.40}"
