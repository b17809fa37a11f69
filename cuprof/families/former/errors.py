"""The name of `cuprof.core.errors` until 0.1."""

from cuprof.core.errors import *  # noqa: F403
