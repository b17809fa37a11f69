"""Nsight Compute: drive it, read its reports, roll launches up to trials, and know its metrics."""
