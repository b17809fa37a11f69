"""Requests to stop: put off, passed on, not taken twice."""

from __future__ import annotations

import os
import signal

import pytest

from cuprof.core.interrupts import heard, is_requested, shielded, stop_if_requested


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_shielded_ends_first(number: int) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), heard():  # noqa: PT012
        with shielded():
            with shielded():
                os.kill(os.getpid(), number)
                done.append("inner")
            done.append("outer")
        done.append("never")
    assert done == ["inner", "outer"]


def test_a_place_where_nothing_is_begun_stops_early() -> None:
    with pytest.raises(KeyboardInterrupt), heard(), shielded():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGTERM)
        stop_if_requested()
        pytest.fail("it went on")


def test_a_second_request_leaves_the_tidying_up_alone() -> None:
    tidied = []
    with pytest.raises(KeyboardInterrupt), heard():  # noqa: PT012
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            tidied.append(is_requested())
    assert tidied == [True]
    assert not is_requested()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_the_process_was_started_to_ignore_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heard():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
