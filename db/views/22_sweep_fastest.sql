-- One row a sweep, variant, problem, device, measure and method: the variant's fastest tunables among its right results.
-- A run that is not ok, a trial found wrong since, and a variant known to be wrong have no place here.
CREATE VIEW sweep_fastest AS
WITH ranked AS MATERIALIZED (
    SELECT
        g.*,
        MIN(g.ordinal) OVER (PARTITION BY g.sweep_id, g.problem_id, g.variant) AS position,
        COUNT(*) OVER (
            PARTITION BY g.sweep_id, g.variant, g.problem_id, g.device_key, g.measure, g.method
        ) AS candidates,
        ROW_NUMBER() OVER (
            PARTITION BY g.sweep_id, g.variant, g.problem_id, g.device_key, g.measure, g.method
            ORDER BY g.median_us, g.ordinal
        ) AS place
    FROM sweep_timings AS g
    WHERE g.state = 'ok'
        AND g.newest_state <> 'wrong_result'
        AND g.expected = 'right'
        AND g.median_us IS NOT NULL
)
SELECT
    sweep_id,
    sweep,
    experiment,
    baseline,
    position,
    family,
    variant,
    kind,
    backend,
    origin,
    problem_id,
    problem,
    problem_json,
    tunables,
    tunables_json,
    device,
    device_key,
    measure,
    method,
    median_us,
    low_us,
    high_us,
    samples,
    bandwidth_gbs,
    gflops,
    candidates,
    trial_id,
    identity,
    timing_id,
    run_id
FROM ranked
WHERE place = 1;
