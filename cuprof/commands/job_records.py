"""What became of each job of a command: a small file a job, or memory alone when there is one job."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class JobRecords:
    """Keep the exit code of every job.

    Jobs of a launcher run in other processes, perhaps on other hosts, so each writes `<number>.json` into a folder
    that they share; a job that began and did not end counts as failed.

    Attributes:
        folder: where the files go; None keeps the one job's exit code in this object.
    """

    folder: Path | None = None
    codes: dict[int, int | None] = field(default_factory=dict, compare=False)

    def begin(self, number: int) -> None:
        """Note that a job has begun."""
        self._write(number, None)

    def end(self, number: int, exit_code: int) -> None:
        """Note a job's exit code."""
        self._write(number, exit_code)

    @property
    def begun(self) -> bool:
        """Return whether any job has begun."""
        return bool(self._read())

    def exit_code(self, expected: int | None = None) -> int:
        """Return the largest exit code of all jobs, at least 1 when one of them left none.

        Args:
            expected: how many jobs there were; None when it is not known.
        """
        codes = self._read()
        missing = max(0, (expected if expected is not None else 1) - len(codes))
        return max([1 if code is None else code for code in codes.values()] + [1] * missing)

    def _write(self, number: int, exit_code: int | None) -> None:
        if self.folder is None:
            self.codes[number] = exit_code
            return
        folder = self.folder / "outcomes"
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{number}.draft"
        draft.write_text(json.dumps({"job": number, "exit_code": exit_code}), encoding="utf-8")
        draft.replace(folder / f"{number}.json")

    def _read(self) -> dict[int, int | None]:
        if self.folder is None:
            return self.codes
        records = [json.loads(path.read_text(encoding="utf-8")) for path in self.folder.glob("outcomes/*.json")]
        return {record["job"]: record["exit_code"] for record in records}
