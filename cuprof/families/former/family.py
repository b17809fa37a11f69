"""The name of `cuprof.families` until 0.1."""

from cuprof.families import *  # noqa: F403
