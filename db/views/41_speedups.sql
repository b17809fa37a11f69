-- One row a sweep, problem, device, measure, method and variant, in order of declaration: how much faster than the
-- kernel before it (step; own kernels only) and than the baseline (cumulative). Each at its fastest tunables.
CREATE VIEW speedups AS
WITH stepped AS MATERIALIZED (
    SELECT
        f.*,
        LAG(f.variant) OVER step AS previous,
        LAG(f.median_us) OVER step AS previous_us
    FROM sweep_fastest AS f
    WINDOW step AS (
        PARTITION BY f.sweep_id, f.problem_id, f.device_key, f.measure, f.method, f.kind
        ORDER BY f.position
    )
)
SELECT
    a.sweep_id,
    a.sweep,
    a.experiment,
    a.family,
    a.problem,
    a.device,
    a.measure,
    a.position,
    a.variant,
    a.origin,
    a.kind,
    a.tunables,
    a.median_us,
    a.low_us,
    a.high_us,
    a.bandwidth_gbs,
    a.gflops,
    CASE a.kind WHEN 'kernel' THEN a.previous END AS previous,
    CASE a.kind WHEN 'kernel' THEN a.previous_us / NULLIF(a.median_us, 0) END AS step_speedup,
    a.baseline,
    b.median_us / NULLIF(a.median_us, 0) AS cumulative_speedup,
    a.method,
    a.problem_id,
    a.problem_json,
    a.device_key,
    a.trial_id,
    a.timing_id
FROM stepped AS a
LEFT JOIN sweep_fastest AS b
    ON b.sweep_id = a.sweep_id
    AND b.family = a.family
    AND b.problem_id = a.problem_id
    AND b.device_key = a.device_key
    AND b.measure = a.measure
    AND b.method = a.method
    AND b.variant = a.baseline;
