"""Read the database as typed rows: sweeps, trials, timings, samples, devices, counters.

Every function takes a connection from `Store.snapshot`, within which all of them see one state of the database. Nothing
in here writes. Durations are nanoseconds, sizes bytes; a number that the database has no value for is NaN in a summary
or a check, else None.
"""
