"""The tables of counters under the names that the package of results still imports."""

from typing import Any

from cuprof.store import tables as t
from cuprof.store.models import Model

Artifact: Any = Model(t.artifact)
Profile: Any = Model(t.profile)
Launch: Any = Model(t.launch)
Metric: Any = Model(t.metric)
Counter: Any = Model(t.counter)
TrialCounter: Any = Model(t.trial_counter)
Advice: Any = Model(t.advice)
