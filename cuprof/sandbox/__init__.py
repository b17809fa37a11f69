"""Shut a process of strangers' code in, with what Linux offers an ordinary user. Only the standard library is imported.

docs/judging.md says what this keeps out and what it does not.
"""
