"""The devices of sweeps, and what was measured of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.records import Calibration, DeviceFacts
from cuprof.results.rows import as_record
from cuprof.store import tables as t


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One physical device with the software that drove it.

    Args:
        comparable: equal for devices whose timings are comparable, 64 hexadecimal digits.
    """

    id: int
    comparable: str
    facts: DeviceFacts


def list_devices(connection: Connection, sweep_ids: Collection[int] | None = None) -> list[DeviceRow]:
    """Return the devices of some sweeps by number: those planned for, run on or calibrated.

    Args:
        sweep_ids: None takes every stored device: they are few, and none of a sweep's trials has to be looked at.
    """
    every = sa.select(*t.device.c).order_by(t.device.c.id)
    chosen = every if sweep_ids is None else every.where(_is_of(sweep_ids))
    rows = connection.execute(chosen)
    return [DeviceRow(row.id, row.comparable, as_record(row, DeviceFacts, index=row.ordinal)) for row in rows]


def _is_of(sweep_ids: Collection[int]) -> sa.ColumnElement[bool]:
    members = t.sweep_trial.c.sweep_id.in_(sweep_ids)
    planned = sa.select(t.sweep_trial.c.device_id).where(members)
    trials = sa.select(t.trial.c.device_id).join(t.sweep_trial, t.sweep_trial.c.trial_id == t.trial.c.id).where(members)
    runs = sa.select(t.run.c.device_id).join(t.sweep_trial, t.sweep_trial.c.run_id == t.run.c.id).where(members)
    calibrated = sa.select(t.calibration.c.device_id).where(t.calibration.c.sweep_id.in_(sweep_ids))
    return sa.or_(*(t.device.c.id.in_(each) for each in (planned, trials, runs, calibrated)))


def find_calibration(connection: Connection, comparable: str, sweep_id: int) -> Calibration | None:
    """Return what the sweep measured of a kind of device, or what was measured last where the sweep measured nothing.

    One with a bandwidth comes before one without. None where there is no calibration.

    Args:
        comparable: see `DeviceRow`.
    """
    row = connection.execute(
        sa.select(*t.calibration.c)
        .join(t.device, t.device.c.id == t.calibration.c.device_id)
        .where(t.device.c.comparable == comparable)
        .order_by(
            t.calibration.c.read_bandwidth.is_(None),
            (t.calibration.c.sweep_id == sweep_id).desc(),
            t.calibration.c.sweep_id.desc(),
        )
        .limit(1)
    ).first()
    return None if row is None else as_record(row, Calibration)
