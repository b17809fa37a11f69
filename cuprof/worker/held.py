"""What stays of a job for the next one: arrays of a block of trials, when a device was last at work, files opened."""

from __future__ import annotations

from collections import defaultdict

from cuprof.backends.contract import Runnable, Session


class Held:
    """Keep one session. To open one takes most of a second where inputs and references are large.

    Attributes:
        busy_until_ns: by back end, until when its device has worked at least, by the monotonic clock.
        opened: by a trial's identity, the files that were opened when its program was made ahead; once read, they may
            be opened no more.
    """

    def __init__(self) -> None:
        self.busy_until_ns: dict[str, int] = {}
        self.opened: defaultdict[str, set[str]] = defaultdict(set)
        self._kept: tuple[tuple[object, ...], Session[Runnable], int] | None = None

    def take(self, key: tuple[object, ...]) -> tuple[Session[Runnable], int] | None:
        """Return the session that was kept under this key, with how many sets it has; any other one is closed."""
        kept, self._kept = self._kept, None
        if kept is not None and kept[0] == key:
            return kept[1:]
        if kept is not None:
            kept[1].close()
        return None

    def keep(self, key: tuple[object, ...], session: Session[Runnable], stocked: int) -> None:
        """Keep a session until it is taken, or closed."""
        self._kept = key, session, stocked

    def close(self) -> None:
        """Close the kept session."""
        self.take(())
