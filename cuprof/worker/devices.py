"""Open back ends, or say why one cannot be opened here and what mends it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from cuprof.backends.contract import Backend, Runnable
from cuprof.backends.registry import begin_to_open, find_facts, open_backend
from cuprof.core.errors import CuprofError, MissingDependencyError
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.families.trace import describe
from cuprof.worker.messages import WorkerSettings


class DeviceTable:
    """The back ends of one process, opened at first use."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self._open: dict[str, Backend[Runnable]] = {}
        self._begun: dict[str, Future[Backend[Runnable]]] = {}
        self._thread = ThreadPoolExecutor(1)

    def begin(self, backend: str) -> None:
        """Open a back end in a thread, for `get` to wait for, and do there what its first session would wait for."""
        if backend not in self._open and backend not in self._begun:
            begin_to_open(backend)
            self._begun[backend] = self._thread.submit(_open_warm, backend, self.settings.numbers.get(backend))

    def get(self, backend: str) -> Backend[Runnable]:
        """Return an open back end.

        Raises:
            CuprofError: it cannot be opened here; the message says why.
        """
        if (begun := self._begun.pop(backend, None)) is not None:
            with suppress(Exception):  # it is tried once more, and what refuses then is reported
                opened = begun.result()
                opened.take_up()
                self._open[backend] = opened
        if backend not in self._open:
            self._open[backend] = open_backend(backend, self.settings.numbers.get(backend))
        return self._open[backend]

    def describe(self, backend: str) -> DeviceFacts | Unavailable:
        """Return the device's facts, or why there is none."""
        try:
            return find_facts(backend, self.settings.numbers.get(backend)) or self.get(backend).facts()
        except MissingDependencyError as error:
            return Unavailable(f"{error.what} is not available", error.remedy)
        except CuprofError as error:
            return Unavailable(str(error))
        except Exception as error:  # a broken driver or package of one back end leaves the others usable
            return Unavailable(f"{backend} cannot be opened: {describe(error)}")


def _open_warm(backend: str, number: int | None) -> Backend[Runnable]:
    """Open a back end, and do what its first session would wait for."""
    opened = open_backend(backend, number)
    opened.warm_up()
    return opened
