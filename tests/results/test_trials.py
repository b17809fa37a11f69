from __future__ import annotations

from store_samples import FACTS, make_trial

from cuprof.results.sweeps import list_variant_names
from cuprof.store.store import Store


def test_the_names_of_sweeps_variants_are_listed(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [make_trial(), make_trial("last_warp", 2**24)])
    with store.snapshot() as connection:
        assert sorted(list_variant_names(connection, [sweep])) == ["interleaved", "last_warp"]
        assert list_variant_names(connection, []) == []
