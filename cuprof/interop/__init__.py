"""What other tools write: definitions, solutions and tuner scripts as families, files of results as trials."""

from cuprof.interop.origins import define

__all__ = ["define"]
