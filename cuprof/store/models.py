"""The tables under the names that the package of results still imports: a column is an attribute."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table

from cuprof.store import tables as t


class Model:
    """Give the columns of a table as attributes."""

    def __init__(self, table: Table) -> None:
        self.__table__ = table

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["__table__"].c[name]
        except KeyError:
            raise AttributeError(name) from None

    def __clause_element__(self) -> Table:
        return self.__table__


Device: Any = Model(t.device)
Sweep: Any = Model(t.sweep)
Station: Any = Model(t.station)
Calibration: Any = Model(t.calibration)
Variant: Any = Model(t.variant)
Problem: Any = Model(t.problem)
Trial: Any = Model(t.trial)
Run: Any = Model(t.run)
SweepTrial: Any = Model(t.sweep_trial)
Timing: Any = Model(t.timing)
Samples: Any = Model(t.samples)
Ranking: Any = Model(t.ranking)
REVISION = t.REVISION
