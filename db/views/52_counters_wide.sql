-- One row a trial, cache mode, clock control and replay mode, a column a metric under Nsight Compute's own name (quote it: "dram__bytes_read.sum").
-- First the four metrics of the set `study`, then others often looked at; any further metric is in the view `counters`.
-- NULL = not collected. Units are those of Nsight Compute, in `counters.unit`.
CREATE VIEW counters_wide AS
SELECT
    c.trial_id,
    c.identity,
    c.family,
    c.variant,
    c.problem,
    c.tunables,
    c.device,
    c.name,
    c.cache_mode,
    c.clock_control,
    c.replay,
    MAX(CASE c.metric WHEN 'launch__grid_dim_z' THEN c.value END) AS "launch__grid_dim_z",
    MAX(CASE c.metric WHEN 'gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed' THEN c.value END) AS "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed",
    MAX(CASE c.metric WHEN 'launch__shared_mem_per_block_dynamic' THEN c.value END) AS "launch__shared_mem_per_block_dynamic",
    MAX(CASE c.metric WHEN 'smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio' THEN c.value END) AS "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    MAX(CASE c.metric WHEN 'gpu__time_duration.sum' THEN c.value END) AS "gpu__time_duration.sum",
    MAX(CASE c.metric WHEN 'dram__bytes_read.sum' THEN c.value END) AS "dram__bytes_read.sum",
    MAX(CASE c.metric WHEN 'dram__bytes_write.sum' THEN c.value END) AS "dram__bytes_write.sum",
    MAX(CASE c.metric WHEN 'launch__grid_size' THEN c.value END) AS "launch__grid_size",
    MAX(CASE c.metric WHEN 'launch__block_size' THEN c.value END) AS "launch__block_size",
    MAX(CASE c.metric WHEN 'launch__registers_per_thread' THEN c.value END) AS "launch__registers_per_thread",
    MAX(CASE c.metric WHEN 'launch__shared_mem_per_block_static' THEN c.value END) AS "launch__shared_mem_per_block_static",
    MAX(CASE c.metric WHEN 'launch__waves_per_multiprocessor' THEN c.value END) AS "launch__waves_per_multiprocessor",
    MAX(CASE c.metric WHEN 'sm__warps_active.avg.pct_of_peak_sustained_active' THEN c.value END) AS "sm__warps_active.avg.pct_of_peak_sustained_active",
    MAX(CASE c.metric WHEN 'sm__throughput.avg.pct_of_peak_sustained_elapsed' THEN c.value END) AS "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    MAX(CASE c.metric WHEN 'gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed' THEN c.value END) AS "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    MAX(CASE c.metric WHEN 'lts__t_sector_hit_rate.pct' THEN c.value END) AS "lts__t_sector_hit_rate.pct",
    MAX(CASE c.metric WHEN 'l1tex__t_sector_hit_rate.pct' THEN c.value END) AS "l1tex__t_sector_hit_rate.pct",
    MAX(CASE c.metric WHEN 'smsp__inst_executed.sum' THEN c.value END) AS "smsp__inst_executed.sum",
    MAX(c.launches) AS launches,
    c.problem_json,
    c.tunables_json,
    MAX(c.recorded_at) AS recorded_at
FROM counters AS c
GROUP BY
    c.trial_id, c.identity, c.family, c.variant, c.problem, c.tunables, c.device, c.name, c.cache_mode,
    c.clock_control, c.replay, c.problem_json, c.tunables_json,
    -- foreign launches of several reports under one name stay apart
    CASE WHEN c.trial_id IS NULL THEN c.artifact END;
