"""Make the sample database of the newest revision: python tests/data/db/make_sample.py

Run it once with every new migration and commit what it makes, `NNNN.sqlite` and `NNNN.json` (what must be found in it
after any later upgrade); never make those of earlier revisions again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1] / "store"))

import store_samples as samples  # noqa: E402

from cuprof.core.records import Measure, Outcome, State  # noqa: E402
from cuprof.results.queries import query  # noqa: E402
from cuprof.store.schema import REVISION  # noqa: E402
from cuprof.store.store import Store  # noqa: E402


def fill(store: Store) -> None:
    """Write one finished sweep with every kind of row, through the calls that a real sweep makes."""
    sweep = store.begin_sweep(samples.FACTS)
    baseline, faster, wrong = (samples.make_trial(name) for name in ("interleaved", "last_warp", "broken"))
    numpy = samples.make_trial("numpy", block=None, device=samples.CPU, kind="cpu", backend="cpu")
    store.save_calibration(sweep, samples.GPU, samples.CALIBRATION)
    store.enlist(sweep, [baseline, faster, wrong, numpy, samples.UNAVAILABLE])
    for trial, median in ((baseline, 80.0), (faster, 16.0), (numpy, 900.0)):
        timings = (samples.make_timing(median), samples.make_timing(median * 9, Measure.TOTAL))
        store.record(sweep, samples.make_outcome(trial, *timings))
    store.record(sweep, samples.make_outcome(wrong, state=State.WRONG_RESULT, message="sum[0] = 1, expected 2"))
    store.record(sweep, Outcome(samples.UNAVAILABLE.identity, State.SKIPPED, "no OpenCL device"))
    for trial in (baseline, faster):
        counter = samples.make_counter("dram__bytes_read.sum", 4.0e6, "byte")
        store.record_profile(sweep, samples.make_profile(trial, counter))
    store.finish_sweep(sweep, "finished")


def main() -> None:
    """Write the database and what must be found in it."""
    target = FOLDER / f"{REVISION}.sqlite"
    target.unlink(missing_ok=True)
    with Store.open(f"sqlite:///{target}") as store:
        fill(store)
        expected = {
            "method": samples.METHOD,
            "best": query(store.url, "best")[["variant", "measure"]].values.tolist(),
            "states": sorted(set(query(store.url, "trials")["state"])),
            "counters": sorted(query(store.url, "counters")["metric"]),
        }
    (FOLDER / f"{REVISION}.json").write_text(json.dumps(expected, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
