"""Judging pairs and counting verdicts, on samples that are drawn here."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import aa_ab
from cuprof.config.model import LimitsConfig, MeasureConfig
from cuprof.core.errors import CuprofError
from cuprof.core.records import Measure, Sample, Timing
from cuprof.engine.executor import Executor
from cuprof.families import Point
from cuprof.families.origin import load_family
from cuprof.statistics.median import summarise
from cuprof.statistics.verdict import Judgement, Verdict
from cuprof.worker.messages import WorkerSettings


def timing(durations):
    samples = tuple(Sample(number, float(duration)) for number, duration in enumerate(durations))
    return Timing(Measure.COLD, "m", samples, summarise(samples), "interval")


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (1.03, "slower"), (0.97, "faster")])
def test_a_pair_is_judged_by_its_ratio(factor, verdict):
    rng = np.random.default_rng(3)
    drift = 40_000 * (1 + 0.02 * np.sin(np.arange(100) / 10))
    base, new = (drift * rng.normal(1, 0.002, 100) * scale for scale in (1.0, factor))
    found = aa_ab.judge_pair(timing(base), timing(new))
    assert found.verdict == verdict
    assert found.low <= found.ratio <= found.high
    assert found.ratio == pytest.approx(factor, abs=0.002)


def test_excluded_samples_do_not_count():
    rng = np.random.default_rng(4)
    base = timing(rng.normal(40_000, 40, 60))
    spoilt = tuple(
        Sample(number, sample.duration_ns * (2 if number % 2 else 1), excluded="throttled" if number % 2 else "")
        for number, sample in enumerate(base.samples)
    )
    new = Timing(Measure.COLD, "m", spoilt, summarise(spoilt), "interval")
    assert aa_ab.judge_pair(base, new).ratio == pytest.approx(1, abs=0.001)


FAMILY = """
import numpy as np
from cuprof.families import Array, Axis, Family, Signature, Tolerance, Tunable

family = Family(
    name="pair", title="", axes=(Axis("steps", default=1, low=1, high=9),),
    signature=lambda problem: Signature({}, {"y": Array((problem.steps,), "int32")}),
    generate=lambda problem, rng: {},
    reference=lambda problem, inputs: {"y": np.ones(problem.steps, np.int32)},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 4,
)
SPIN = Tunable("spin_ns", (0, 500_000), default=0)

def make(problem, tune, inputs, outputs):
    return lambda: outputs["y"].fill(1)

family.cpu("base", tunables=(SPIN,))(make)
family.cpu("other", tunables=(SPIN,))(make)
"""


class SteadyExecutor(Executor):
    """Runs all on a worker; a sample lasts 0.2 ms and the trial's wait, within 0.2 %, whatever else the host does."""

    def measure(self, job):
        rng, waits = np.random.default_rng(1), {trial.identity: trial.tunables["spin_ns"] for trial in job.trials}
        for outcome in super().measure(job):
            timings = []
            for each in outcome.timings:
                drawn = (200_000 + waits[outcome.identity]) * rng.normal(1, 0.002, len(each.samples))
                samples = tuple(
                    replace(one, duration_ns=float(ns)) for one, ns in zip(each.samples, drawn, strict=True)
                )
                timings.append(replace(each, samples=samples, summary=summarise(samples)))
            yield replace(outcome, timings=tuple(timings))


def test_each_comparison_is_a_sweep_of_the_pair(tmp_path):
    (tmp_path / "pair").mkdir()
    (tmp_path / "pair" / "family.py").write_text(FAMILY)
    family = load_family(tmp_path / "pair")
    bounds = {"max_samples": 20, "max_seconds": 600, "patience_seconds": 600}
    settings = MeasureConfig(modes=("cold",), settle_seconds=0.0, **bounds)
    with SteadyExecutor(WorkerSettings(), LimitsConfig()) as executor:
        laboratory = aa_ab.Laboratory(executor, family, Point(steps=2), settings)
        found = laboratory.compare(500_000)
        assert found.base.summary.count == found.new.summary.count == 20
        assert found.judgement.verdict == "slower"
        assert found.judgement.ratio == pytest.approx(3.5, rel=0.01)
        with pytest.raises(CuprofError, match="absent"):
            laboratory.time(absent=0)


def pairs(*verdicts):
    one = timing([40_000.0] * 20)
    return [aa_ab.Pair(one, one, Judgement(Verdict(verdict), 1.0, 0.99, 1.01, True, 0.05), 0.1) for verdict in verdicts]


def test_equal_variants_may_be_same_or_undecided():
    row = aa_ab.make_row("A/A", pairs("same", "undecided", "slower", "same"), "same", 1.0)
    assert (row["wrong %"], row["slower"], row["same"], row["undecided"]) == (25, 1, 2, 1)
    assert row["interval holds %"] == 100


def test_a_slower_variant_must_be_called_slower():
    row = aa_ab.make_row("A/B", pairs("slower", "undecided", "slower", "slower"), "slower", 1.015)
    assert (row["wrong %"], row["interval holds %"]) == (25, 0)


def test_the_script_explains_itself(capsys):
    with pytest.raises(SystemExit):
        aa_ab.main(["--help"])
    assert "--different" in capsys.readouterr().out
