"""Where the numbers come from: device, software, command, git, configuration; no environment, no password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from cuprof.analysis.quantities import format_value
from cuprof.analysis.study import Device, Study
from cuprof.store.connection import hide_passwords

GIT_FACTS = ("commit", "branch", "dirty")


@dataclass(frozen=True)
class Provenance:
    """Facts in groups of (name, value), and the configuration as YAML."""

    groups: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    configuration: str


def provenance(study: Study) -> Provenance:
    """Return everything that somebody needs to judge the numbers or to measure them again."""
    sweep = study.sweep
    reused = int((study.trials["run_sweep_id"].notna() & (study.trials["run_sweep_id"] != sweep.id)).sum())
    timed = int((study.trials["time_ns"].notna() & (study.trials["run_sweep_id"] == sweep.id)).sum())
    own = study.trials[study.trials["run_sweep_id"] == sweep.id]
    samples = int(
        own[["cold_count", "hot_count", "total_count"]].apply(lambda column: column.astype(float).sum()).sum()
    )
    about = {
        "Command": hide_passwords(sweep.command_line),
        "Sweep": f"{sweep.id}, {sweep.state}",
        "Database": hide_passwords(sweep.database),
        "Started": sweep.started_at,
        "Finished": sweep.finished_at,
        "Host": sweep.host,
        "Trials": f"{len(study.trials)}, {timed} timed with {samples} samples"
        + (f", {reused} taken over from earlier sweeps" if reused else ""),
    }
    git = {name.capitalize(): sweep.git[name] for name in GIT_FACTS if name in sweep.git}
    groups = [("Sweep", about), ("Git", git), *((device.label, _device(device)) for device in study.devices)]
    groups.append(("Software", dict(sorted(sweep.software.items()))))
    return Provenance(
        tuple((title, _pairs(facts)) for title, facts in groups if _pairs(facts)),
        hide_passwords(yaml.safe_dump(_plain(sweep.configuration), sort_keys=True, allow_unicode=True))
        if sweep.configuration
        else "",
    )


def _device(device: Device) -> dict[str, Any]:
    facts: dict[str, Any] = {"Back end": device.backend}
    if device.memory_bytes:
        facts["Memory"] = f"{device.memory_bytes / 2**30:.1f} GiB"
    if device.read_bandwidth:
        facts["Read bandwidth, measured"] = format_value("bandwidth", device.read_bandwidth)
    overhead = device.calibration.get("event_overhead_ns")
    if overhead:
        facts["Event overhead, measured"] = format_value("time", float(overhead))
    known = {
        name.replace("_", " ").capitalize(): value
        for source in (device.identity, device.details)
        for name, value in source.items()
    }
    return {**facts, **{name: value for name, value in known.items() if name != "Name"}}


def _pairs(facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _text(value)) for name, value in facts.items() if value not in (None, "", {}, []))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
