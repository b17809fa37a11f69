"""Decide whether a stranger's kernel is right, honest and at least as fast as the baseline; see `court`."""
