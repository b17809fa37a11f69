"""The arrays of a block of trials, kept where they are for the blocks of the same problem that follow it."""

from __future__ import annotations

from cuprof.backends.contract import Runnable, Session


class Held:
    """Keep one session. To open one takes most of a second where inputs and references are large."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._session: Session[Runnable] | None = None
        self._stocked = 0

    def take(self, key: tuple[object, ...]) -> tuple[Session[Runnable], int] | None:
        """Return the session that was kept under this key, with how many sets it has; any other one is closed."""
        session, self._session = self._session, None
        if session is not None and key == self._key:
            return session, self._stocked
        if session is not None:
            session.close()
        return None

    def keep(self, key: tuple[object, ...], session: Session[Runnable], stocked: int) -> None:
        """Keep a session until it is taken, or closed."""
        self._key, self._session, self._stocked = key, session, stocked

    def close(self) -> None:
        """Close what is kept."""
        self.take(())
