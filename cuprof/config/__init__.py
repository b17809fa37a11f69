"""Configuration: frozen dataclasses made from what Hydra composes."""
