-- One row a family, problem, device, measure and method: the fastest right variant with its tunables, of all sweeps.
-- `candidates` says how many trials it was the fastest of. Timings of different methods are never mixed.
CREATE VIEW best AS
WITH ranked AS MATERIALIZED (
    SELECT
        g.*,
        COUNT(*) OVER (PARTITION BY g.family, g.problem_id, g.device_key, g.measure, g.method) AS candidates,
        ROW_NUMBER() OVER (
            PARTITION BY g.family, g.problem_id, g.device_key, g.measure, g.method
            ORDER BY g.median_us, g.timing_id
        ) AS place
    FROM timings AS g
    WHERE g.state = 'ok'
        AND g.run_state = 'ok'
        AND g.expected = 'right'
        AND g.median_us IS NOT NULL
)
SELECT
    family,
    problem,
    device,
    measure,
    variant,
    tunables,
    median_us,
    low_us,
    high_us,
    bandwidth_gbs,
    gflops,
    samples,
    candidates,
    kind,
    method,
    problem_id,
    problem_json,
    tunables_json,
    device_key,
    trial_id,
    identity,
    run_id,
    sweep_id,
    recorded_at
FROM ranked
WHERE place = 1;
