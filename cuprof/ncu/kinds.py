"""What the change of a metric means by its name, also of metrics that the catalog does not describe."""

from __future__ import annotations

from cuprof.profiling.metric import (
    ActiveThreads,
    Amount,
    BlockMemory,
    GridDepth,
    Kind,
    SectorsPerRequest,
    SectorUse,
    ShareOfPeak,
)

_LAUNCH = (
    Kind(r"^launch__grid_dim_z$", GridDepth()),
    Kind(
        r"^launch__grid_(dim_[xy]|size)$",
        Amount("The number of blocks", "the work is cut finer", "each block does more"),
    ),
    Kind(r"^launch__block_(dim_[xyz]|size)$", Amount("The number of threads a block")),
    Kind(r"^launch__thread_count$", Amount("The number of threads", "each thread does less", "each thread does more")),
    Kind(r"^launch__waves_per_multiprocessor", Amount("The number of waves of blocks a multiprocessor runs")),
    Kind(
        r"^launch__registers_per_thread$",
        Amount(
            "Registers a thread", "fewer warps may fit on a multiprocessor", "more warps may fit on a multiprocessor"
        ),
    ),
    Kind(r"^launch__occupancy_limit_", Amount("The number of blocks this resource allows on a multiprocessor")),
    Kind(r"^launch__shared_mem_per_block_dynamic$", BlockMemory("Dynamic")),
    Kind(r"^launch__shared_mem_per_block_static$", BlockMemory("Static")),
    Kind(r"^launch__shared_mem_per_block(_allocated)?$", BlockMemory("Allocated")),
)
_USE = (
    Kind(r"dram__?_?throughput.*pct", ShareOfPeak("DRAM throughput")),
    Kind(r"^lts__.*throughput.*pct|^lts__t_sectors.*pct_of_peak", ShareOfPeak("L2 throughput")),
    Kind(r"^l1tex__.*throughput.*pct", ShareOfPeak("L1 throughput")),
    Kind(r"^(sm|smsp)__throughput.*pct|compute_memory_throughput.*pct", ShareOfPeak("Throughput")),
    Kind(r"^sm__(inst_executed_)?pipe_.*pct", ShareOfPeak("The pipe's use")),
)
_MEMORY = (
    Kind(r"^dram__bytes_read", Amount("What is read from DRAM", "more data travels in", "less data travels in")),
    Kind(r"^dram__bytes_write", Amount("What is written to DRAM", "more data travels out", "less data travels out")),
    Kind(r"^dram__(bytes|sectors)", Amount("DRAM traffic", "more data travels", "less data travels")),
    Kind(
        r"^lts__t_(bytes|sectors)(?!.*hit_rate)",
        Amount("L2 traffic", "the L1 caches pass more on", "the L1 caches pass less on"),
    ),
    Kind(r"^lts__.*hit_rate", Amount("The L2 hit rate", "more requests end in L2", "more requests go on to DRAM")),
    Kind(r"^l1tex__.*hit_rate", Amount("The L1 hit rate", "more requests end in L1", "more requests go on to L2")),
    Kind(r"bytes_per_sector_mem_global_op_ld", SectorUse("loads")),
    Kind(r"bytes_per_sector_mem_global_op_st", SectorUse("stores")),
    Kind(r"sectors_per_request|sectors.*per.*(LDG|STG)", SectorsPerRequest()),
    Kind(
        r"data_bank_conflicts|bank_conflict",
        Amount("Shared-memory bank conflicts", "more accesses are serialised", "fewer accesses are serialised"),
    ),
)
_INSTRUCTIONS = (
    Kind(r"thread_inst_executed_per_inst_executed", ActiveThreads()),
    Kind(
        r"^sm__warps_active.*pct",
        Amount("Achieved occupancy", "more warps are there to hide latency", "fewer warps are there to hide latency"),
    ),
    Kind(r"^sm__maximum_warps", Amount("Theoretical occupancy")),
    Kind(
        r"inst_executed.*(ldg|LDG|op_global_ld|global_loads)", Amount("Warp instructions that load from global memory")
    ),
    Kind(
        r"inst_executed.*(stg|STG|op_global_st|global_stores)", Amount("Warp instructions that store to global memory")
    ),
    Kind(r"inst_executed.*(lds|LDS|op_shared_ld)", Amount("Warp instructions that load from shared memory")),
    Kind(r"inst_executed.*(sts|STS|op_shared_st)", Amount("Warp instructions that store to shared memory")),
    Kind(
        r"^(sm|smsp)__(sass_)?inst_executed(\.|$)|^smsp__inst_issued",
        Amount(
            "Warp instructions in all",
            "more instructions for the same result",
            "fewer instructions for the same result",
        ),
    ),
    Kind(r"latency_per_inst|cycles_per_inst|warp_cycles", Amount("Cycles a warp spends for an instruction")),
    Kind(
        r"op_f(add|mul|fma)|flop",
        Amount("Floating-point work", "more operations are executed", "fewer operations are executed"),
    ),
    Kind(
        r"^gpu__time_duration",
        Amount("The kernels' time under the profiler (whose clocks and caches differ from the timed runs)"),
    ),
    Kind(r"energy", Amount("Energy")),
)

KINDS: tuple[Kind, ...] = _LAUNCH + _USE + _MEMORY + _INSTRUCTIONS
"""The first whose pattern is in a name counts."""

ORDER = (
    r"^launch__grid",
    r"dram",
    r"^launch__shared",
    r"bytes_per_sector|sectors_per_request",
    r"^launch__",
    r"^lts",
    r"^l1tex",
)
"""Metrics are listed in this order: geometry, DRAM traffic, shared memory, coalescing, then the rest by name."""
