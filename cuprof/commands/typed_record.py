"""Keep what was typed out of the jobs' folder: Hydra writes it there, passwords included, and nobody reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback

RECORD = "multirun.yaml"


class NoTypedRecord(Callback):
    """Lead Hydra's record of several jobs nowhere, before it is written."""

    def on_multirun_start(self, config: Any, **_: Any) -> None:
        """Put a link to nowhere in the record's place."""
        folder = Path(config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RECORD).unlink(missing_ok=True)
        (folder / RECORD).symlink_to(os.devnull)
