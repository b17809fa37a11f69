"""The border between a trusted process, which owns inputs, check and clock, and one that runs a stranger's code.

`Suspect` is the trusted side of it; `python -m cuprof.judge.border.inside` is the stranger's process.
"""
