"""Confine a process that runs a stranger's code, by the means that Linux offers an ordinary user.

This imports only the standard library. docs/judging.md says what the sandbox keeps out and what it does not.
"""
