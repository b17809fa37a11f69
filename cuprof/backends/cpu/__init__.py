"""The host's processor: Python functions on NumPy arrays, timed with the monotonic clock."""
