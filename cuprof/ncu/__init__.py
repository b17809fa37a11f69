"""Nsight Compute: collect hardware counters with ncu, and read its report files.

A collection goes through these modules:

- `setting`: the metrics to collect, and how
- `collector`: trials in batches; `batch`, `process`: each in one ncu process, and the outcome of each of its trials
- `task`: what the profiled process, `cuprof.worker.profile`, reads and writes
- `report_file`: launches and their counters
- `launches`: one value for each metric of a trial
"""

TITLE = "Nsight Compute"
IN_PROCESS, EXECUTED = BACKENDS = ("cuda", "program")
"""The back ends whose trials ncu profiles: kernels of the profiled process, and programs that it executes."""
