"""Nsight Compute: collect hardware counters with ncu, and read its report files.

A collection goes through `setting` (what is asked for), `collector` (batches of trials), `process` (one ncu process),
`cuprof.worker.profile` (the profiled process, which reads its `task`), `report_file` (launches and their counters),
`attribution` (what became of each trial) and `rollup` (one value a metric and trial).
"""

TITLE = "Nsight Compute"
IN_PROCESS, EXECUTED = BACKENDS = ("cuda", "program")
"""The back ends whose trials ncu profiles: kernels of the profiled process, and programs that it executes."""
