"""Short headings of the counters that tables and figures name often; any other goes by Nsight Compute's own name."""

from __future__ import annotations

TELLING: dict[str, str] = {
    "launch__grid_dim_z": "Grid depth",
    "dram__bytes_read.sum": "DRAM read",
    "dram__bytes_write.sum": "DRAM written",
    "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed": "DRAM throughput",
    "launch__shared_mem_per_block_dynamic": "Dynamic shared",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": "Bytes used of a loaded sector",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "Bank conflicts",
    "smsp__inst_executed.sum": "Warp instructions",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "Occupancy reached",
}
"""The metrics that tell most of a kernel, each with its heading."""

HEADINGS: dict[str, str] = {
    **TELLING,
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": "Sectors a load request",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": "Sectors a store request",
    "l1tex__t_sector_hit_rate.pct": "L1 hit rate",
    "launch__registers_per_thread": "Registers a thread",
    "launch__waves_per_multiprocessor": "Waves a multiprocessor",
    "lts__t_sector_hit_rate.pct": "L2 hit rate",
    "sm__maximum_warps_per_active_cycle_pct": "Occupancy possible",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM throughput",
    "smsp__average_warp_latency_per_inst_issued.ratio": "Cycles between two instructions of a warp",
    "smsp__sass_inst_executed_op_global_ld.sum": "Global loads (LDG)",
    "smsp__sass_inst_executed_op_global_st.sum": "Global stores (STG)",
    "smsp__sass_inst_executed_op_shared_ld.sum": "Shared loads (LDS)",
    "smsp__sass_inst_executed_op_shared_st.sum": "Shared stores (STS)",
}


def heading_of(metric: str) -> str:
    """Return the heading of a counter: a short one where there is one, else the metric's name."""
    return HEADINGS.get(metric, metric)
