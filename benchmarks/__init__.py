"""Measurements of cuprof itself, against known durations and beside other tools; README.md says what each shows."""
