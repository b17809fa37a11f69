"""Keep what was typed out of the jobs' folder, and others out of what launchers write there, passwords included."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback

RECORD = "multirun.yaml"


class NoTypedRecord(Callback):
    """Lead Hydra's record of several jobs, which nobody reads, nowhere, before it is written."""

    def on_multirun_start(self, config: Any, **_: Any) -> None:
        """Put a link to nowhere in the record's place; beside it a launcher keeps all that its jobs are given."""
        folder = Path(config.hydra.sweep.dir)
        with suppress(OSError):  # Hydra meets the same when it writes there, and its words name the setting
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / RECORD).unlink(missing_ok=True)
            (folder / RECORD).symlink_to(os.devnull)
