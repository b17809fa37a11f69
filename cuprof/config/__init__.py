"""Configuration: frozen dataclasses made from what Hydra composes."""

from cuprof.config.model import SweepConfig

__all__ = ["SweepConfig"]
