"""What is said of recorded sweeps: python tests/comparison/golden.py writes the golden file anew.

It is what `cuprof compare --json` says. Of the pairs of one sweep all but two are asked for as a page does, which takes
a tenth of the time and says the same to the last digit; `test_pairs.py` tests that.
Write it anew only where verdicts change on purpose, in a commit that says so.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cuprof.cli import compare
from cuprof.comparison.pairs import VariantComparisons
from cuprof.comparison.sides import load_sides
from cuprof.core.records import Measure

DATA = Path(__file__).parents[1] / "data"
GOLDEN = DATA / "comparison" / "golden_verdicts.json"
KERNELS = ("quick1", "quick2")
"""Sweeps of an H200, `measure=quick`: forty names for one kernel at four sizes."""
REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007")
DIGITS = 8


def iter_found(folder: Path) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield the name of each comparison, and its rows as the golden file has them.

    Args:
        folder: an empty one, where the databases are unpacked.
    """
    files = {name: folder / f"{name}.sqlite" for name in (*KERNELS, *REVISIONS)}
    for name in KERNELS:
        files[name].write_bytes(gzip.decompress((DATA / "equal_kernels" / f"{name}.sqlite.gz").read_bytes()))
        url = f"sqlite:///{files[name]}"
        found = _pairs(url)
        for pair, rows in found.items():
            words = [f"aa/{variant}" for variant in pair]
            by_command = pair in (min(found), max(found))
            yield f"{name} {' '.join(words)}", _rows(*words, "--store", url) if by_command else rows
    yield "one sweep and the other", _rows(*(str(files[name]) for name in KERNELS))
    for name in REVISIONS:
        shutil.copy(DATA / "db" / f"{name}.sqlite", files[name])
        for measure in ("cold", "total"):
            words = ("--measure", measure, "--store", f"sqlite:///{files[name]}")
            yield f"revision {name} {measure}", _rows("reduction/interleaved", "reduction/last_warp", *words)


def _pairs(url: str) -> dict[tuple[str, str], list[list[Any]]]:
    """Return the rows of each two neighbours among the variants of a sweep."""
    sweep = load_sides("latest", "latest", url)[0]
    pairs = [(f"v{place:02}", f"v{place + 1:02}") for place in range(0, 40, 2)]
    identities = dict(zip(sweep.trials["variant"], sweep.trials["identity"], strict=True))
    comparisons = VariantComparisons(sweep)
    comparisons.foresee((identities[base], identities[new], Measure.COLD) for base, new in pairs)
    names = ("base_median_ns", "new_median_ns", "ratio", "low", "high", "error_rate")
    return {
        pair: [
            [
                f"{row.base_variant} → {row.new_variant} {dict(row.new_problem)} {row.measure}",
                row.verdict,
                *(round(getattr(row, name), DIGITS) for name in names),
                row.paired,
            ]
            for row in comparisons.rows(*pair).values()
        ]
        for pair in pairs
    }


def _rows(*words: str) -> list[list[Any]]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        compare.main([*words, "--json"])
    return [
        [
            f"{row['base']['variant']} → {row['new']['variant']} {row['new']['problem']} {row['measure']}",
            row["verdict"],
            *(round(row[name], DIGITS) for name in ("base_ns", "new_ns", "ratio", "low", "high", "error_rate")),
            row["paired"],
        ]
        for row in json.loads(output.getvalue())["rows"]
    ]


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as folder:
        found = dict(iter_found(Path(folder)))
    lines = ",\n".join(
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"
        for name, rows in found.items()
    )
    GOLDEN.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
