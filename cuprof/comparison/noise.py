"""The noise of stored times: stated, assumed for the kind of time, or estimated from unchanged trials."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from cuprof.backends.registry import find_spec
from cuprof.core.records import Measure
from cuprof.statistics.contrasts import Contrasts
from cuprof.statistics.noise import AS_MODELLED, MANY_CONTROLS, PREPARED, NoiseModel, SweepNoise, estimate_scale

ONE_LAUNCH = NoiseModel("CUDA, one launch", 0.002, 75.0)
SEVERAL_LAUNCHES = NoiseModel("CUDA, several launches or a library", 0.002, 200.0)
OPENCL = NoiseModel("OpenCL on a GPU", 0.02, 400.0)
TRANSFERS = NoiseModel("total, by the host's clock", 0.05)
HOST = NoiseModel("CPU", 0.05)
BORDER = NoiseModel("CUDA, by the judge's clock", 0.005, 25.0)
"""Assumed where nothing else is known; docs/comparing.md says what the figures were chosen from."""


def add_models(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of a side with the model of each time's assumed noise.

    What has several launches is timed cold by means over several executions, as library calls are
    (docs/measurement.md, "Several launches").
    """
    measures, backends = trials["measure"], trials["backend"]
    by_profile = [name for name in set(backends) if (spec := find_spec(name)) is not None and spec.times_by_profile]
    of_means = trials["trial"][(measures == Measure.COLD.value) & (trials["batch"] > 1)]
    models = {  # of several that hold the last one stands
        SEVERAL_LAUNCHES: trials["trial"].isin(of_means),
        OPENCL: backends.isin(by_profile),
        TRANSFERS: measures == Measure.TOTAL.value,
        HOST: trials["on_host"],
    }
    found = np.full(len(trials), ONE_LAUNCH, dtype=object)
    for model, holds in models.items():
        found[holds.to_numpy(bool)] = model
    return trials.assign(model=found)


def model_border(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the models of times on a CUDA device that another process than the one that executes took."""
    borders = {ONE_LAUNCH: BORDER, SEVERAL_LAUNCHES: BORDER}
    names = ("base_model", "new_model")
    return rows.assign(**{name: rows[name].map(lambda model: borders.get(model, model)) for name in names})


def noise_within(rows: pd.DataFrame) -> np.ndarray:
    """Return the noise of the times of comparisons within one sweep, (n, 3): the fields of `Noise`."""
    found = Contrasts.none_of(len(rows)).noise
    prepared = ((rows["measure"] == Measure.COLD.value) & rows["base_on_host"] & rows["new_on_host"]).to_numpy(bool)
    times = (rows.loc[prepared, f"{side}_median_ns"].to_numpy(np.float64) for side in ("base", "new"))
    found[prepared] = SweepNoise("assumed", {PREPARED: AS_MODELLED}).of(PREPARED, PREPARED, *times)
    return found


def noise_between(noises: Mapping[str, SweepNoise], rows: pd.DataFrame) -> np.ndarray:
    """Return the noise of the times of comparisons between sweeps, by their device: (n, 3), the fields of `Noise`."""
    times = [rows[f"{side}_median_ns"].to_numpy(np.float64) for side in ("base", "new")]
    kinds = list(zip(rows["device"], rows["base_model"], rows["new_model"], strict=True))
    numbers, different = pd.factorize(pd.Series(kinds, dtype=object))
    found = np.empty((len(rows), 3))
    for number, (device, base, new) in enumerate(different):
        chosen = numbers == number
        found[chosen] = noises[device].of(base, new, *(each[chosen] for each in times))
    return found


def find_noises(rows: pd.DataFrame, stated: float | None, unchanged: Contrasts) -> dict[str, SweepNoise]:
    """Return device → noise of the times that the two sides took in different sweeps.

    Each device has its own: a GPU's times say nothing of how much the host's vary.

    Args:
        rows: matched rows with `device` and the models, those that were not taken together.
        stated: taken for all times, as a share of each, where it is not None.
        unchanged: the contrasts of the rows in which nothing has changed, in their order; not read of a stated noise.
    """
    if stated is not None:
        return dict.fromkeys(rows["device"], SweepNoise("stated", {NoiseModel("", stated): AS_MODELLED}))
    controls, found = rows[rows["unchanged"]], {}
    for device in dict.fromkeys(rows["device"]):
        chosen = (controls["device"] == device).to_numpy(bool)
        found[device] = _find_noise(rows[rows["device"] == device], controls[chosen], unchanged.take(chosen))
    return found


def _find_noise(apart: pd.DataFrame, controls: pd.DataFrame, contrasts: Contrasts) -> SweepNoise:
    met = dict.fromkeys(apart[["base_model", "new_model"]].to_numpy().ravel())
    assumed = SweepNoise("assumed", dict.fromkeys(met, AS_MODELLED))
    if controls.empty:
        return assumed
    first = controls.drop_duplicates("match")["base_model"].tolist()
    deviations = noise_between(dict.fromkeys(controls["device"], assumed), controls)[:, 0]
    scale, shown = estimate_scale(contrasts, deviations, len(first)), Counter(first)
    # Below 1 only where enough trials of that kind have shown it.
    holds = {model: scale.value >= 1.0 or shown[model] >= MANY_CONTROLS for model in met}
    scales = {model: scale if is_shown else AS_MODELLED for model, is_shown in holds.items()}
    farthest = max(contrasts.log_ratio.tolist(), key=abs)
    return SweepNoise("estimated", scales, len(first), math.exp(farthest))
