"""Nsight Compute: collect hardware counters with ncu, and read its report files.

A collection goes through these modules:

- `setting`: the metrics to collect, and how
- `collector`, `process`: trials in batches, each in one ncu process
- `task`: what the profiled process, `cuprof.worker.profile`, reads and writes
- `report_file`: launches and their counters
- `attribution`, `launches`: the outcome of each trial, and one value for each of its metrics
"""

TITLE = "Nsight Compute"
IN_PROCESS, EXECUTED = BACKENDS = ("cuda", "program")
"""The back ends whose trials ncu profiles: kernels of the profiled process, and programs that it executes."""
