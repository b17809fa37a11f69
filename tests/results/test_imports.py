"""What taking in reports asks of the database, on both databases."""

from __future__ import annotations

from dataclasses import replace

from store_samples import ARTIFACT, FACTS, make_counter, make_profile, make_trial

from cuprof.results.sweeps import list_taken_in, read_known
from cuprof.store.store import Store


def test_known_are_stored_trials_with_their_devices(store: Store) -> None:
    here, nowhere, stranger = make_trial(), replace(make_trial("warp"), device=None), make_trial("stranger")
    store.enlist(store.begin_sweep(FACTS), [here, nowhere])
    assert here.device is not None
    strangers = [f"{number:032x}" for number in range(40_000)]
    with store.snapshot() as connection:
        found = read_known(connection, [*strangers, here.identity, nowhere.identity, stranger.identity])
        labels = {here.identity: here.label, nowhere.identity: nowhere.label}
        assert found == (labels, {here.identity: here.device.name, nowhere.identity: ""})
        assert read_known(connection, []) == ({}, {})


def test_what_a_report_was_taken_in_as(store: Store) -> None:
    trial = make_trial()
    store.enlist(store.begin_sweep(FACTS), [trial])
    counter = make_counter("dram__bytes_read.sum", 1.0)
    store.record_profile(None, make_profile(trial, counter))
    store.record_profile(None, make_profile(None, counter, name="theirs/k", cache_mode="hot"))
    other = replace(ARTIFACT, sha256="f" * 64)
    store.record_profile(None, replace(make_profile(None, counter, name="other"), artifact=other))
    with store.snapshot() as connection:
        assert list_taken_in(connection, ARTIFACT.sha256) == {(trial.identity, "cold"), ("theirs/k", "hot")}
        assert list_taken_in(connection, "0" * 64) == set()
