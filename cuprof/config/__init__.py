"""Configuration: frozen dataclasses made from what Hydra composes."""

from cuprof.config.model import (
    CheckConfig,
    DeviceConfig,
    LimitsConfig,
    MeasureConfig,
    NcuConfig,
    ReportConfig,
    StoreConfig,
    SweepConfig,
)

__all__ = [
    "CheckConfig",
    "DeviceConfig",
    "LimitsConfig",
    "MeasureConfig",
    "NcuConfig",
    "ReportConfig",
    "StoreConfig",
    "SweepConfig",
]
