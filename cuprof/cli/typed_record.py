"""Keep the typed settings, with their passwords, out of the jobs' folder, and other users out of that folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback

RECORD = "multirun.yaml"


class NoTypedRecord(Callback):
    """Send Hydra's record of several jobs, which cuprof does not need, to /dev/null."""

    def on_multirun_start(self, config: Any, **_: Any) -> None:
        """Put a link to /dev/null in the record's place; a launcher keeps its jobs' arguments beside it."""
        folder = Path(config.hydra.sweep.dir)
        with suppress(OSError):  # Hydra meets the same when it writes there, and its words name the setting
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / RECORD).unlink(missing_ok=True)
            (folder / RECORD).symlink_to(os.devnull)
