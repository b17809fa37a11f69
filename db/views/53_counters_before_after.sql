-- One row a sweep, problem, device, cache mode, clock control, replay mode, metric and variant other than the baseline: the counter of the baseline
-- (before) and of the variant (after). Of several tunables the fastest profiled one speaks for its variant.
CREATE VIEW counters_before_after AS
WITH counted AS MATERIALIZED (
    SELECT c.trial_id, c.cache_mode, c.clock_control, c.replay, c.metric, c.unit, c.value, c.meaning, c.rollup
    FROM counters AS c
    WHERE c.trial_id IS NOT NULL
),
profiled AS MATERIALIZED (
    SELECT DISTINCT c.trial_id, c.cache_mode, c.clock_control, c.replay
    FROM counted AS c
),
speed AS MATERIALIZED (
    SELECT r.trial_id, g.measure, MIN(g.median_ns) AS median_ns
    FROM timing AS g
    JOIN run AS r ON r.id = g.run_id
    WHERE r.state = 'ok' AND r.trial_id IN (SELECT q.trial_id FROM profiled AS q)
    GROUP BY r.trial_id, g.measure
),
ranked AS MATERIALIZED (
    SELECT
        m.*,
        q.cache_mode,
        q.clock_control,
        q.replay,
        ROW_NUMBER() OVER (
            PARTITION BY
                m.sweep_id, m.variant, m.problem_id, m.device_key, q.cache_mode, q.clock_control, q.replay
            ORDER BY CASE WHEN w.median_ns IS NULL THEN 1 ELSE 0 END, w.median_ns, m.ordinal
        ) AS place
    FROM profiled AS q
    JOIN sweep_trials AS m ON m.trial_id = q.trial_id
    LEFT JOIN speed AS w ON w.trial_id = q.trial_id AND w.measure = q.cache_mode
    WHERE m.expected = 'right' AND m.state IN ('ok', 'planned') AND m.newest_state <> 'wrong_result'
),
valued AS MATERIALIZED (
    SELECT r.*, c.metric, c.unit, c.value, c.meaning, c.rollup
    FROM ranked AS r
    JOIN counted AS c
        ON c.trial_id = r.trial_id
        AND c.cache_mode = r.cache_mode
        AND c.clock_control = r.clock_control
        AND c.replay = r.replay
    WHERE r.place = 1
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
