-- One row a sweep, problem, device, cache mode, clock control, replay mode, metric and variant other than the baseline: the counter of the baseline
-- (before) and of the variant (after). Of several tunables the fastest profiled one speaks for its variant.
CREATE VIEW counters_before_after AS
WITH profiled AS MATERIALIZED (
    SELECT DISTINCT f.trial_id, c.cache_mode, f.clock_control, f.replay
    FROM trial_counter AS c
    JOIN profile AS f ON f.id = c.profile_id
    WHERE f.trial_id IS NOT NULL
),
timed AS MATERIALIZED (
    SELECT
        q.*,
        (
            SELECT MIN(g.median_ns) FROM run AS r
            JOIN timing AS g ON g.run_id = r.id
            WHERE r.trial_id = q.trial_id AND r.state = 'ok' AND g.measure = q.cache_mode
        ) AS median_ns
    FROM profiled AS q
),
-- By the tables themselves: of the view sweep_trials a planner without statistics would first make every row.
members AS MATERIALIZED (
    SELECT q.*, m.sweep_id, m.ordinal, m.run_id, m.device_id FROM timed AS q
    JOIN sweep_trial AS m ON m.trial_id = q.trial_id
),
ranked AS MATERIALIZED (
    SELECT
        m.sweep_id,
        s.name AS sweep,
        s.experiment,
        s.baseline,
        m.ordinal,
        m.trial_id,
        v.family,
        v.name AS variant,
        p.id AS problem_id,
        p.label AS problem,
        CAST(p.coordinates AS TEXT) AS problem_json,
        t.tunables_label AS tunables,
        d.name AS device,
        d.comparable AS device_key,
        m.cache_mode,
        m.clock_control,
        m.replay,
        ROW_NUMBER() OVER (
            PARTITION BY m.sweep_id, v.name, p.id, d.comparable, m.cache_mode, m.clock_control, m.replay
            ORDER BY CASE WHEN m.median_ns IS NULL THEN 1 ELSE 0 END, m.median_ns, m.ordinal
        ) AS place
    FROM members AS m
    JOIN sweep AS s ON s.id = m.sweep_id
    JOIN trial AS t ON t.id = m.trial_id
    JOIN variant AS v ON v.id = t.variant_id
    JOIN problem AS p ON p.id = t.problem_id
    LEFT JOIN run AS r ON r.id = m.run_id
    LEFT JOIN device AS d ON d.id = COALESCE(r.device_id, m.device_id, t.device_id)
    WHERE v.expected = 'right' AND COALESCE(r.state, 'planned') IN ('ok', 'planned') AND t.state <> 'wrong_result'
),
valued AS MATERIALIZED (
    -- the newest value of each metric, as in the view `counters`
    SELECT r.*, n.name AS metric, n.unit, c.value, n.meaning, n.rollup
    FROM ranked AS r
    CROSS JOIN profile AS f
    JOIN trial_counter AS c ON c.profile_id = f.id
    JOIN metric AS n ON n.id = c.metric_id
    WHERE r.place = 1
        AND f.trial_id = r.trial_id
        AND f.clock_control = r.clock_control
        AND f.replay = r.replay
        AND c.cache_mode = r.cache_mode
        AND NOT EXISTS (
            SELECT 1 FROM profile AS y
            JOIN trial_counter AS z ON z.profile_id = y.id
            JOIN metric AS o ON o.id = z.metric_id
            WHERE y.trial_id = f.trial_id
                AND y.id > f.id
                AND y.clock_control = f.clock_control
                AND y.replay = f.replay
                AND z.cache_mode = c.cache_mode
                AND o.name = n.name
        )
)
SELECT
    a.sweep_id,
    a.sweep,
    a.experiment,
    a.family,
    a.problem,
    a.device,
    a.cache_mode,
    a.clock_control,
    a.replay,
    a.baseline,
    b.tunables AS baseline_tunables,
    a.variant,
    a.tunables,
    a.metric,
    a.unit,
    b.value AS before,
    a.value AS after,
    a.value - b.value AS change,
    a.value / NULLIF(b.value, 0) AS ratio,
    100.0 * (a.value - b.value) / NULLIF(ABS(b.value), 0) AS change_percent,
    a.meaning,
    a.rollup,
    a.ordinal AS position,
    a.problem_id,
    a.problem_json,
    a.device_key,
    b.trial_id AS before_trial_id,
    a.trial_id AS after_trial_id
FROM valued AS a
JOIN valued AS b
    ON b.sweep_id = a.sweep_id
    AND b.family = a.family
    AND b.problem_id = a.problem_id
    AND b.device_key = a.device_key
    AND b.cache_mode = a.cache_mode
    AND b.clock_control = a.clock_control
    AND b.replay = a.replay
    AND b.variant = a.baseline
    AND b.metric = a.metric
    AND b.unit = a.unit
WHERE a.variant <> a.baseline;
