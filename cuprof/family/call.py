"""A function that returns its results in arrays of its own, as variants of libraries and of the host may be."""

from __future__ import annotations

from collections.abc import Callable


class Call:
    """What is timed, and beside it what brings the results to where they are compared.

    Args:
        run: computes and returns the results; what it takes is what is timed.
        put: copies what `run` returned last into the outputs; called before each comparison, untimed.
    """

    def __init__(self, run: Callable[[], object], put: Callable[[object], None]) -> None:
        self._run, self._put = run, put
        self._returned: object = None

    def __call__(self) -> None:
        self._returned = self._run()

    def deliver(self) -> None:
        """Copy what the last execution returned into the outputs."""
        self._put(self._returned)
