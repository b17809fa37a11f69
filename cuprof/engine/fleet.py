"""Run the stations of a sweep side by side: each gets a job when free, and one thread writes and reports."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from threading import Event, Thread, current_thread
from typing import Any, NoReturn, TypeVar

from cuprof.config.model import SweepConfig
from cuprof.engine.enrolment import make_stations
from cuprof.engine.feed import Feed, Later
from cuprof.engine.runner import StoppedError
from cuprof.engine.station import Station
from cuprof.worker.messages import Job

T = TypeVar("T")

POLL_S, LOOK_S = 0.05, 0.5
JOIN_S = 15.0
"""Wait this long for a station's thread. That is longer than ending a worker takes; a station still waiting for its
device ends with the process."""

Work = Callable[[Station, Job], None]
"""Runs a job at a station; it writes and reports through `Fleet.call`."""


class Fleet:
    """Keep the stations of one sweep busy.

    One station works in the caller's thread. Several have a thread each, which waits for the station's worker. They
    write and report in the caller's thread, one after another, and each waits until its own call is done.
    """

    def __init__(self, stations: Sequence[Station]) -> None:
        self.stations = list(stations)
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._stopped = Event()
        self._thread = current_thread()

    @property
    def first(self) -> Station:
        """Return the station to ask for facts that are the same at all of them."""
        return self.stations[0]

    def run(self, feed: Feed, work: Work) -> None:
        """Give jobs to stations that are free until the feed has no more for any.

        Whatever a station's work or the feed raises is raised here, after all stations have been stopped.
        """
        self._thread = current_thread()
        if len(self.stations) == 1:
            self._serve(self.first, feed, work)
            return
        threads = [Thread(target=self._attend, args=(station, feed, work), daemon=True) for station in self.stations]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads) or not self._calls.empty():
                self._answer()
        finally:
            self._stop(threads)

    def retire(self, station: Station, feed: Feed, job: Job) -> bool:
        """Leave the rest of a job to other stations for good; return False if there are none."""
        if all(other.is_lost for other in self.stations if other is not station):
            return False
        station.is_lost = True
        feed.give_back(station, job)
        return True

    def call(self, function: Callable[..., T], *given: Any) -> T:
        """Call a function in the one thread that writes to the store and reports to observers; return its result."""
        if current_thread() is self._thread:
            return function(*given)
        future: Future[T] = Future()
        self._calls.put((future, partial(function, *given)))
        while True:
            try:
                return future.result(LOOK_S)
            except NotYetError:  # it is never answered where an interrupt came between two steps of the other thread
                if self._stopped.is_set():
                    raise StoppedError from None

    def _attend(self, station: Station, feed: Feed, work: Work) -> None:
        """Serve a station in a thread of its own. Linux ends a worker with the thread that started it.

        A device takes half a second to give a worker's memory back, and nobody here waits for that.
        """
        try:
            self._serve(station, feed, work)
        except StoppedError:
            pass
        except BaseException as error:
            self._calls.put((Future(), partial(_raise, error)))
        finally:
            station.runner.retire_worker()

    def _serve(self, station: Station, feed: Feed, work: Work) -> None:
        while (job := self.call(feed.take, station)) is not None:
            if isinstance(job, Later):
                time.sleep(POLL_S)
            else:
                work(station, job)
                if station.is_lost:
                    return

    def _answer(self) -> None:
        try:
            future, function = self._calls.get(timeout=POLL_S)
        except queue.Empty:
            return
        try:
            future.set_result(function())
        except BaseException:
            future.set_exception(StoppedError())
            raise

    def _stop(self, threads: Sequence[Thread]) -> None:
        """End the stations; their further calls are refused."""
        self._stopped.set()
        for station in self.stations:
            station.runner.stop()
        give_up = time.monotonic() + JOIN_S
        while any(thread.is_alive() for thread in threads) and time.monotonic() < give_up:
            with suppress(queue.Empty):
                self._calls.get(timeout=POLL_S)[0].set_exception(StoppedError())


@contextmanager
def open_fleet(stations: Sequence[Station]) -> Iterator[Fleet]:
    """Yield the fleet of these stations, and end their workers afterwards."""
    with ExitStack() as stack:
        for station in stations:
            stack.enter_context(station.runner)
        yield Fleet(stations)


def open_stations(config: SweepConfig) -> AbstractContextManager[Fleet]:
    """Open a station for each requested GPU; no worker is started yet."""
    return open_fleet(make_stations(config))


def _raise(error: BaseException) -> NoReturn:
    raise error
