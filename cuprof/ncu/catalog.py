"""The metrics that cuprof explains: name, unit, one sentence, and a rule where the name does not imply the right one.

Names and units are Nsight Compute's; the sentences follow NVIDIA's Kernel Profiling Guide ("Metrics Reference").
"""

from __future__ import annotations

DURATION = "gpu__time_duration.sum"
_LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
_STORES = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"
_LOAD_SECTORS = "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum"
_STORE_SECTORS = "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_st.sum"
_INSTRUCTIONS = "smsp__inst_executed.sum"

Entry = tuple[str, str, str, str]
"""(name, unit, meaning, rule or empty for the rule that the name implies)."""

_LAUNCH: tuple[Entry, ...] = (
    ("launch__grid_dim_x", "", "Blocks of the grid in x.", ""),
    ("launch__grid_dim_y", "", "Blocks of the grid in y.", ""),
    ("launch__grid_dim_z", "", "Blocks of the grid in z: the depth of the grid.", ""),
    ("launch__grid_size", "", "Blocks of the grid altogether.", ""),
    ("launch__block_size", "", "Threads of a block.", ""),
    ("launch__thread_count", "thread", "Threads of the grid altogether.", ""),
    ("launch__registers_per_thread", "register/thread", "Registers a thread was given.", ""),
    ("launch__shared_mem_per_block_static", "byte/block", "Shared memory of a block declared in the source.", ""),
    ("launch__shared_mem_per_block_dynamic", "byte/block", "Shared memory of a block asked for at the launch.", ""),
    ("launch__shared_mem_per_block_allocated", "byte/block", "Shared memory a block occupies, all kinds, rounded.", ""),
    (
        "launch__waves_per_multiprocessor",
        "",
        "How often the SMs fill up before the grid is done; a small fraction above a whole number is a tail.",
        "",
    ),
    ("launch__occupancy_limit_blocks", "block", "Blocks an SM can hold by the limit on their number.", ""),
    ("launch__occupancy_limit_registers", "block", "Blocks an SM can hold by the registers they take.", ""),
    ("launch__occupancy_limit_shared_mem", "block", "Blocks an SM can hold by the shared memory they take.", ""),
    ("launch__occupancy_limit_warps", "block", "Blocks an SM can hold by the warps they have.", ""),
)
_TIME: tuple[Entry, ...] = (
    (DURATION, "ns", "Duration of the launch under the profiler; for counters, not a timing.", ""),
    ("sm__cycles_elapsed.avg.per_second", "hz", "Clock of the SMs during the launch.", ""),
    ("sm__cycles_active.avg", "cycle", "Cycles in which an SM had at least one warp, on average over the SMs.", ""),
)
_MEMORY: tuple[Entry, ...] = (
    ("dram__bytes_read.sum", "byte", "Bytes read from device memory.", ""),
    ("dram__bytes_write.sum", "byte", "Bytes written to device memory.", ""),
    ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "Device memory traffic as a share of its peak.", ""),
    (
        "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed",
        "%",
        "Device memory traffic as a share of its peak; what the caches and shared memory keep away lowers it.",
        "",
    ),
    (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "%",
        "Device memory traffic as a share of its peak.",
        "",
    ),
    (
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "%",
        "Use of the busiest part of the memory system, as a share of its peak.",
        "",
    ),
    ("lts__t_bytes.sum", "byte", "Bytes that went through the L2 cache.", ""),
    ("lts__t_sectors_op_read.sum", "sector", "32-byte sectors read through the L2 cache.", ""),
    ("lts__t_sectors_op_write.sum", "sector", "32-byte sectors written through the L2 cache.", ""),
    ("lts__t_sector_hit_rate.pct", "%", "L2 sectors found in the cache.", "mean:lts__t_sectors.sum"),
    ("lts__t_sectors.sum", "sector", "32-byte sectors asked of the L2 cache.", ""),
    ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "%", "Use of the L2 cache as a share of its peak.", ""),
    ("l1tex__t_bytes.sum", "byte", "Bytes that went through the L1 cache.", ""),
    ("l1tex__t_sectors.sum", "sector", "32-byte sectors asked of the L1 cache.", ""),
    ("l1tex__t_sector_hit_rate.pct", "%", "L1 sectors found in the cache.", "mean:l1tex__t_sectors.sum"),
    ("l1tex__throughput.avg.pct_of_peak_sustained_active", "%", "Use of the L1 cache as a share of its peak.", ""),
    (_LOADS, "", "Warp requests to the L1 cache from loads of global memory.", ""),
    (_STORES, "", "Warp requests to the L1 cache from stores to global memory.", ""),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector", "Sectors that loads of global memory touched.", ""),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sector", "Sectors that stores to global memory touched.", ""),
    (_LOAD_SECTORS, "sector", "Sectors that load instructions of global memory touched.", ""),
    (_STORE_SECTORS, "sector", "Sectors that store instructions to global memory touched.", ""),
    (
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
        "byte/sector",
        "Bytes used of each 32-byte sector that loads of global memory fetch; 32 is perfect coalescing.",
        f"mean:{_LOAD_SECTORS}",
    ),
    (
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
        "byte/sector",
        "Bytes used of each 32-byte sector that stores to global memory touch; 32 is perfect coalescing.",
        f"mean:{_STORE_SECTORS}",
    ),
    (
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
        "sector",
        "Sectors a warp's load of global memory touches; 4 for coalesced 4-byte loads.",
        f"mean:{_LOADS}",
    ),
    (
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
        "sector",
        "Sectors a warp's store to global memory touches; 4 for coalesced 4-byte stores.",
        f"mean:{_STORES}",
    ),
    (
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        "",
        "Extra passes through shared memory because threads of a warp met in one bank.",
        "",
    ),
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "", "Passes through shared memory.", ""),
)
_COMPUTE: tuple[Entry, ...] = (
    (
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "%",
        "Use of the busiest part of the SMs, as a share of its peak.",
        "",
    ),
    ("sm__inst_executed_pipe_fma.sum", "inst", "Warp instructions executed by the FMA pipe.", ""),
    ("sm__inst_executed_pipe_alu.sum", "inst", "Warp instructions executed by the integer and logic pipe.", ""),
    ("sm__inst_executed_pipe_lsu.sum", "inst", "Warp instructions executed by the load/store pipe.", ""),
    ("sm__inst_executed_pipe_tensor.sum", "inst", "Warp instructions executed by the tensor cores.", ""),
    ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", "%", "Use of the FMA pipe.", ""),
    ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%", "Use of the tensor cores.", ""),
    (
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "%",
        "Cycles in which a scheduler issued an instruction.",
        "",
    ),
    ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "inst", "Float32 additions, one a thread.", ""),
    ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", "inst", "Float32 multiplications, one a thread.", ""),
    (
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "inst",
        "Float32 fused multiply-adds, one a thread: two operations each.",
        "",
    ),
    ("smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", "inst", "Float64 additions, one a thread.", ""),
    ("smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", "inst", "Float64 multiplications, one a thread.", ""),
    (
        "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
        "inst",
        "Float64 fused multiply-adds, one a thread: two operations each.",
        "",
    ),
)
_INSTRUCTION: tuple[Entry, ...] = (
    (_INSTRUCTIONS, "inst", "Warp instructions executed.", ""),
    (
        "sass__inst_executed_per_opcode",
        "",
        "Warp instructions executed, by opcode (LDG, STG, LDS, STS, FFMA, …).",
        "",
    ),
    ("smsp__sass_inst_executed_op_global_ld.sum", "inst", "Warp instructions that load from global memory.", ""),
    ("smsp__sass_inst_executed_op_global_st.sum", "inst", "Warp instructions that store to global memory.", ""),
    ("smsp__sass_inst_executed_op_shared_ld.sum", "inst", "Warp instructions that load from shared memory.", ""),
    ("smsp__sass_inst_executed_op_shared_st.sum", "inst", "Warp instructions that store to shared memory.", ""),
    (
        "smsp__sass_inst_executed_op_local.sum",
        "inst",
        "Warp instructions on local memory: spills and indexed arrays.",
        "",
    ),
    (
        "smsp__average_warp_latency_per_inst_issued.ratio",
        "cycle",
        "Cycles between two instructions of a warp, on average: the latency the other warps have to hide.",
        f"mean:{_INSTRUCTIONS}",
    ),
    (
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
        "inst",
        "Warps waiting for global or local memory, for each instruction issued.",
        f"mean:{_INSTRUCTIONS}",
    ),
    (
        "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
        "inst",
        "Warps waiting at a barrier, for each instruction issued.",
        f"mean:{_INSTRUCTIONS}",
    ),
    (
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        "",
        "Threads active in a warp instruction; 32 is no divergence.",
        f"mean:{_INSTRUCTIONS}",
    ),
)
_OCCUPANCY: tuple[Entry, ...] = (
    (
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "%",
        "Achieved occupancy: warps resident on an SM as a share of the most it can hold.",
        "",
    ),
    (
        "sm__maximum_warps_per_active_cycle_pct",
        "%",
        "Theoretical occupancy: the share that the launch's registers, shared memory and block size allow.",
        "",
    ),
    ("smsp__warps_eligible.avg.per_cycle_active", "warp", "Warps ready to issue, a cycle and scheduler.", ""),
    ("smsp__warps_active.avg.per_cycle_active", "warp", "Warps resident, a cycle and scheduler.", ""),
)

ENTRIES: tuple[Entry, ...] = _LAUNCH + _TIME + _MEMORY + _COMPUTE + _INSTRUCTION + _OCCUPANCY
