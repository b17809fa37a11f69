"""What a reader must know of how the samples were taken."""

from __future__ import annotations

import pandas as pd

from cuprof.analysis.intervals import has_interval
from cuprof.analysis.quantities import count, shorten
from cuprof.records import ENERGY_UNAVAILABLE

MANY = 0.2
"""From this share of samples left out on, a page says so."""
MOST_NAMES = 4
KERNEL_TIMES = ("cold", "hot")


def sampling_notes(trials: pd.DataFrame) -> list[str]:
    """Return sentences on timings that lost many samples, and on those that stopped before they were narrow.

    Args:
        trials: as `cuprof.analysis.trials` documents them; only right, timed trials are looked at.
    """
    lossy: dict[str, None] = {}
    wide, timed, few, most = 0, 0, 0, 0.0
    for _, trial in trials[trials["state"] == "ok"].iterrows():
        for measure in KERNEL_TIMES:
            if not pd.notna(trial.get(f"{measure}_ns")):
                continue
            timed += 1
            kept, lost = float(trial[f"{measure}_count"]), float(trial[f"{measure}_excluded"])
            stopped = trial[f"{measure}_stopped_by"]
            if stopped == "excluded" or lost >= MANY * (kept + lost) > 0:
                lossy[str(trial["variant"])] = None
            if stopped != "interval":
                wide += 1
                if not has_interval(dict(trial), measure):
                    few += 1
                    continue
                median = float(trial[f"{measure}_ns"])
                reach = max(float(trial[f"{measure}_high_ns"]) - median, median - float(trial[f"{measure}_low_ns"]))
                most = max(most, reach / median if median else 0.0)
    notes = []
    if lossy:
        names = ", ".join(map(shorten, list(lossy)[:MOST_NAMES]))
        names += f" and {len(lossy) - MOST_NAMES} more" if len(lossy) > MOST_NAMES else ""
        notes.append(
            f"A fifth or more of the samples had to be left out for {names} (throttling, a low clock, or a host that "
            "was held up); those times are less sure than their intervals say."
        )
    without_energy = dict.fromkeys(filter(None, trials[ENERGY_UNAVAILABLE]))
    if without_energy:
        notes.append(f"Energy was asked for and could not be measured: {'; '.join(without_energy)}.")
    if wide:
        widest = f"the widest reaches ±{most * 100:.1f}\N{NO-BREAK SPACE}%" if wide > few else ""
        without = f"{few} of them {'has' if few == 1 else 'have'} too few samples for an interval" if few else ""
        notes.append(
            f"{wide} of {count(timed, 'kernel timing')} stopped at a bound of time or samples before the interval was "
            f"as narrow as asked for; {'; '.join(filter(None, (widest, without)))}."
        )
    return notes
