"""Where the numbers come from: device, software, command, git, configuration; no environment, no password."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import yaml

from cuprof.report.study import Device, Study
from cuprof.report.units import format_value
from cuprof.store.types import plain

GIT_FACTS = ("commit", "branch", "dirty")


def provenance(study: Study) -> dict[str, Any]:
    """Return what somebody needs to judge the numbers or to measure them again: groups of facts, a configuration."""
    sweep = study.sweep
    own, reused = study.frame[study.frame["run_sweep_id"] == sweep.id], int(study.frame["is_reused"].sum())
    timed, samples = (own["measure"] != "").sum(), study.timings["samples"][study.timings.index.isin(own.index)].sum()
    about = {
        "Command": sweep.command_line,
        "Sweep": f"{sweep.id}, {sweep.state}",
        "Database": study.database,
        "Started": moment(sweep.started_at),
        "Finished": moment(sweep.finished_at),
        "Host": sweep.host,
        "Trials": f"{len(study.frame)}, {timed} timed with {samples} samples"
        + (f", {reused} taken over from earlier sweeps" if reused else ""),
    }
    git = {name.capitalize(): sweep.git[name] for name in GIT_FACTS if name in sweep.git}
    groups = [("Sweep", about), ("Git", git), *((device.label, _device(device)) for device in study.devices)]
    groups.append(("Software", dict(sorted(sweep.software.items()))))
    known = study.configuration
    return {
        "groups": [(title, _pairs(facts)) for title, facts in groups if _pairs(facts)],
        "configuration": yaml.safe_dump(plain(known), sort_keys=True, allow_unicode=True) if known else "",
    }


def moment(seconds: float | None) -> str:
    """Return a point in time for people, UTC; empty for none."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if seconds else ""


def _device(device: Device) -> dict[str, Any]:
    facts: dict[str, Any] = {"Back end": device.facts.backend}
    if device.facts.memory_bytes:
        facts["Memory"] = f"{device.facts.memory_bytes / 2**30:.1f} GiB"
    if device.read_bandwidth:
        facts["Read bandwidth, measured"] = format_value("bandwidth", device.read_bandwidth)
    if device.calibration and device.calibration.event_overhead_ns:
        facts["Event overhead, measured"] = format_value("time", device.calibration.event_overhead_ns)
    known = {**device.facts.identity, **device.facts.details}
    known = {name.replace("_", " ").capitalize(): value for name, value in known.items() if name.lower() != "name"}
    return facts | known


def _pairs(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, _text(value)) for name, value in facts.items() if value not in (None, "", {}, [])]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)
