"""The metrics that cuprof describes: name, unit, meaning, and whatever else tables, pages and the roll-up know of each.

Names and units are Nsight Compute's; the sentences follow NVIDIA's Kernel Profiling Guide ("Metrics Reference"). A rule
stands where the name does not imply the right one (`cuprof.ncu.rules`). What the change of a metric means is said for
all that are alike by name in `cuprof.ncu.kinds`.
"""

from __future__ import annotations

from cuprof.ncu.rules import DURATION
from cuprof.profiling.metric import Metric

_LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
_STORES = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"
_LOAD_SECTORS = "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum"
_STORE_SECTORS = "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_st.sum"
_INSTRUCTIONS = "smsp__inst_executed.sum"

_GRID = "Grid"
_DRAM = "DRAM traffic"
_SHARED = "Shared memory"
_COALESCING = "Coalescing"
_EXECUTION = "Instructions"
_RESIDENCE = "Occupancy"
TOPICS = (_GRID, _DRAM, _SHARED, _COALESCING, _EXECUTION, _RESIDENCE)
"""What an analysis goes through, in this order."""

_NO_LOADS, _NO_STORES = "no global loads counted", "no global stores counted"
_ASYNC_LOADS = "Asynchronous copies to shared memory (cp.async, TMA) are not among the loads that are counted."
_BULK_STORES = "Bulk copies out of shared memory (TMA) are not among the stores that are counted."

_LAUNCH = (
    Metric("launch__grid_dim_x", "", "Blocks of the grid in x."),
    Metric("launch__grid_dim_y", "", "Blocks of the grid in y."),
    Metric(
        "launch__grid_dim_z",
        "",
        "Blocks of the grid in z: the depth of the grid.",
        heading="Grid depth",
        topic=_GRID,
        telling=1,
    ),
    Metric("launch__grid_size", "", "Blocks of the grid altogether."),
    Metric("launch__block_size", "", "Threads of a block."),
    Metric("launch__thread_count", "thread", "Threads of the grid altogether."),
    Metric(
        "launch__registers_per_thread", "register/thread", "Registers a thread was given.", heading="Registers a thread"
    ),
    Metric(
        "launch__shared_mem_per_block_static",
        "byte/block",
        "Shared memory of a block declared in the source.",
        topic=_SHARED,
    ),
    Metric(
        "launch__shared_mem_per_block_dynamic",
        "byte/block",
        "Shared memory of a block asked for at the launch.",
        heading="Dynamic shared",
        topic=_SHARED,
        telling=5,
    ),
    Metric(
        "launch__shared_mem_per_block_allocated", "byte/block", "Shared memory a block occupies, all kinds, rounded."
    ),
    Metric(
        "launch__waves_per_multiprocessor",
        "",
        "How often the SMs fill up before the grid is done; a small fraction above a whole number is a tail.",
        heading="Waves a multiprocessor",
    ),
    Metric("launch__occupancy_limit_blocks", "block", "Blocks an SM can hold by the limit on their number."),
    Metric("launch__occupancy_limit_registers", "block", "Blocks an SM can hold by the registers they take."),
    Metric("launch__occupancy_limit_shared_mem", "block", "Blocks an SM can hold by the shared memory they take."),
    Metric("launch__occupancy_limit_warps", "block", "Blocks an SM can hold by the warps they have."),
)
_TIME = (
    Metric(DURATION, "ns", "Duration of the launch under the profiler; for counters, not a timing."),
    Metric("sm__cycles_elapsed.avg.per_second", "hz", "Clock of the SMs during the launch."),
    Metric("sm__cycles_active.avg", "cycle", "Cycles in which an SM had at least one warp, on average over the SMs."),
)
_MEMORY = (
    Metric(
        "dram__bytes_read.sum", "byte", "Bytes read from device memory.", heading="DRAM read", topic=_DRAM, telling=2
    ),
    Metric(
        "dram__bytes_write.sum",
        "byte",
        "Bytes written to device memory.",
        heading="DRAM written",
        topic=_DRAM,
        telling=3,
    ),
    Metric("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "Device memory traffic as a share of its peak."),
    Metric(
        "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed",
        "%",
        "Device memory traffic as a share of its peak; what the caches and shared memory keep away lowers it.",
        heading="DRAM throughput",
        topic=_DRAM,
        telling=4,
    ),
    Metric(
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "%",
        "Device memory traffic as a share of its peak.",
        heading="DRAM throughput",
        topic=_DRAM,
    ),
    Metric(
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "%",
        "Use of the busiest part of the memory system, as a share of its peak.",
    ),
    Metric("lts__t_bytes.sum", "byte", "Bytes that went through the L2 cache."),
    Metric("lts__t_sectors_op_read.sum", "sector", "32-byte sectors read through the L2 cache."),
    Metric("lts__t_sectors_op_write.sum", "sector", "32-byte sectors written through the L2 cache."),
    Metric(
        "lts__t_sector_hit_rate.pct",
        "%",
        "L2 sectors found in the cache.",
        rule="mean:lts__t_sectors.sum",
        heading="L2 hit rate",
    ),
    Metric("lts__t_sectors.sum", "sector", "32-byte sectors asked of the L2 cache.", absence="no L2 sectors counted"),
    Metric("lts__throughput.avg.pct_of_peak_sustained_elapsed", "%", "Use of the L2 cache as a share of its peak."),
    Metric("l1tex__t_bytes.sum", "byte", "Bytes that went through the L1 cache."),
    Metric("l1tex__t_sectors.sum", "sector", "32-byte sectors asked of the L1 cache.", absence="no L1 sectors counted"),
    Metric(
        "l1tex__t_sector_hit_rate.pct",
        "%",
        "L1 sectors found in the cache.",
        rule="mean:l1tex__t_sectors.sum",
        heading="L1 hit rate",
    ),
    Metric("l1tex__throughput.avg.pct_of_peak_sustained_active", "%", "Use of the L1 cache as a share of its peak."),
    Metric(
        _LOADS, "", "Warp requests to the L1 cache from loads of global memory.", absence=_NO_LOADS, exempt=_ASYNC_LOADS
    ),
    Metric(
        _STORES,
        "",
        "Warp requests to the L1 cache from stores to global memory.",
        absence=_NO_STORES,
        exempt=_BULK_STORES,
    ),
    Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector", "Sectors that loads of global memory touched."),
    Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sector", "Sectors that stores to global memory touched."),
    Metric(
        _LOAD_SECTORS,
        "sector",
        "Sectors that load instructions of global memory touched.",
        absence=_NO_LOADS,
        exempt=_ASYNC_LOADS,
    ),
    Metric(
        _STORE_SECTORS,
        "sector",
        "Sectors that store instructions to global memory touched.",
        absence=_NO_STORES,
        exempt=_BULK_STORES,
    ),
    Metric(
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
        "byte/sector",
        "Bytes used of each 32-byte sector that loads of global memory fetch; 32 is perfect coalescing.",
        rule=f"mean:{_LOAD_SECTORS}",
        heading="Bytes used of a loaded sector",
        topic=_COALESCING,
        telling=6,
    ),
    Metric(
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
        "byte/sector",
        "Bytes used of each 32-byte sector that stores to global memory touch; 32 is perfect coalescing.",
        rule=f"mean:{_STORE_SECTORS}",
    ),
    Metric(
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
        "sector",
        "Sectors a warp's load of global memory touches; 4 for coalesced 4-byte loads.",
        rule=f"mean:{_LOADS}",
        heading="Sectors a load request",
        topic=_COALESCING,
    ),
    Metric(
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
        "sector",
        "Sectors a warp's store to global memory touches; 4 for coalesced 4-byte stores.",
        rule=f"mean:{_STORES}",
        heading="Sectors a store request",
    ),
    Metric(
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        "",
        "Extra passes through shared memory because threads of a warp met in one bank.",
        heading="Bank conflicts",
        topic=_SHARED,
        telling=7,
    ),
    Metric("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "", "Passes through shared memory."),
)
_COMPUTE = (
    Metric(
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "%",
        "Use of the busiest part of the SMs, as a share of its peak.",
        heading="SM throughput",
    ),
    Metric("sm__inst_executed_pipe_fma.sum", "inst", "Warp instructions executed by the FMA pipe."),
    Metric("sm__inst_executed_pipe_alu.sum", "inst", "Warp instructions executed by the integer and logic pipe."),
    Metric("sm__inst_executed_pipe_lsu.sum", "inst", "Warp instructions executed by the load/store pipe."),
    Metric("sm__inst_executed_pipe_tensor.sum", "inst", "Warp instructions executed by the tensor cores."),
    Metric("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", "%", "Use of the FMA pipe."),
    Metric("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%", "Use of the tensor cores."),
    Metric(
        "smsp__issue_active.avg.pct_of_peak_sustained_active", "%", "Cycles in which a scheduler issued an instruction."
    ),
    Metric("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "inst", "Float32 additions, one a thread."),
    Metric("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", "inst", "Float32 multiplications, one a thread."),
    Metric(
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "inst",
        "Float32 fused multiply-adds, one a thread: two operations each.",
    ),
    Metric("smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", "inst", "Float64 additions, one a thread."),
    Metric("smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", "inst", "Float64 multiplications, one a thread."),
    Metric(
        "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
        "inst",
        "Float64 fused multiply-adds, one a thread: two operations each.",
    ),
)
_INSTRUCTION = (
    Metric(
        _INSTRUCTIONS, "inst", "Warp instructions executed.", heading="Warp instructions", topic=_EXECUTION, telling=8
    ),
    Metric(
        "sass__inst_executed_per_opcode", "", "Warp instructions executed, by opcode (LDG, STG, LDS, STS, FFMA, …)."
    ),
    Metric(
        "smsp__sass_inst_executed_op_global_ld.sum",
        "inst",
        "Warp instructions that load from global memory.",
        heading="Global loads (LDG)",
    ),
    Metric(
        "smsp__sass_inst_executed_op_global_st.sum",
        "inst",
        "Warp instructions that store to global memory.",
        heading="Global stores (STG)",
    ),
    Metric(
        "smsp__sass_inst_executed_op_shared_ld.sum",
        "inst",
        "Warp instructions that load from shared memory.",
        heading="Shared loads (LDS)",
    ),
    Metric(
        "smsp__sass_inst_executed_op_shared_st.sum",
        "inst",
        "Warp instructions that store to shared memory.",
        heading="Shared stores (STS)",
    ),
    Metric(
        "smsp__sass_inst_executed_op_local.sum", "inst", "Warp instructions on local memory: spills and indexed arrays."
    ),
    Metric(
        "smsp__average_warp_latency_per_inst_issued.ratio",
        "cycle",
        "Cycles between two instructions of a warp, on average: the latency the other warps have to hide.",
        rule=f"mean:{_INSTRUCTIONS}",
        heading="Cycles between two instructions of a warp",
    ),
    Metric(
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
        "inst",
        "Warps waiting for global or local memory, for each instruction issued.",
        rule=f"mean:{_INSTRUCTIONS}",
    ),
    Metric(
        "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
        "inst",
        "Warps waiting at a barrier, for each instruction issued.",
        rule=f"mean:{_INSTRUCTIONS}",
    ),
    Metric(
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        "",
        "Threads active in a warp instruction; 32 is no divergence.",
        rule=f"mean:{_INSTRUCTIONS}",
        topic=_EXECUTION,
    ),
)
_OCCUPANCY = (
    Metric(
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "%",
        "Achieved occupancy: warps resident on an SM as a share of the most it can hold.",
        heading="Occupancy reached",
        topic=_RESIDENCE,
        telling=9,
    ),
    Metric(
        "sm__maximum_warps_per_active_cycle_pct",
        "%",
        "Theoretical occupancy: the share that the launch's registers, shared memory and block size allow.",
        heading="Occupancy possible",
    ),
    Metric("smsp__warps_eligible.avg.per_cycle_active", "warp", "Warps ready to issue, a cycle and scheduler."),
    Metric("smsp__warps_active.avg.per_cycle_active", "warp", "Warps resident, a cycle and scheduler."),
)

METRICS: tuple[Metric, ...] = _LAUNCH + _TIME + _MEMORY + _COMPUTE + _INSTRUCTION + _OCCUPANCY
