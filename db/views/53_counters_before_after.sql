-- One row a sweep, problem, device, cache mode, metric and variant other than the baseline: the counter of the baseline
-- (before) and of the variant (after). Of several tunables the fastest profiled one speaks for its variant.
CREATE VIEW counters_before_after AS
WITH speed AS (
    SELECT g.trial_id, g.measure, MIN(g.median_us) AS median_us
    FROM timings AS g
    WHERE g.run_state = 'ok'
    GROUP BY g.trial_id, g.measure
),
profiled AS (
    SELECT DISTINCT c.trial_id, c.cache_mode
    FROM counters AS c
    WHERE c.trial_id IS NOT NULL
),
ranked AS (
    SELECT
        m.*,
        q.cache_mode,
        ROW_NUMBER() OVER (
            PARTITION BY m.sweep_id, m.variant, m.problem_id, m.device_key, q.cache_mode
            ORDER BY CASE WHEN w.median_us IS NULL THEN 1 ELSE 0 END, w.median_us, m.ordinal
        ) AS place
    FROM sweep_trials AS m
    JOIN profiled AS q ON q.trial_id = m.trial_id
    LEFT JOIN speed AS w ON w.trial_id = m.trial_id AND w.measure = q.cache_mode
    WHERE m.expected = 'right' AND m.state IN ('ok', 'planned') AND m.newest_state <> 'wrong_result'
),
chosen AS (
    SELECT * FROM ranked WHERE place = 1
)
SELECT
    a.sweep_id,
    a.sweep,
    a.experiment,
    a.family,
    a.problem,
    a.device,
    a.cache_mode,
    a.baseline,
    b.tunables AS baseline_tunables,
    a.variant,
    a.tunables,
    x.metric,
    x.unit,
    y.value AS before,
    x.value AS after,
    x.value - y.value AS change,
    x.value / NULLIF(y.value, 0) AS ratio,
    100.0 * (x.value - y.value) / NULLIF(ABS(y.value), 0) AS change_percent,
    x.meaning,
    x.rollup,
    a.ordinal AS position,
    a.problem_id,
    a.problem_json,
    a.device_key,
    b.trial_id AS before_trial_id,
    a.trial_id AS after_trial_id
FROM chosen AS a
JOIN chosen AS b
    ON b.sweep_id = a.sweep_id
    AND b.family = a.family
    AND b.problem_id = a.problem_id
    AND b.device_key = a.device_key
    AND b.cache_mode = a.cache_mode
    AND b.variant = a.baseline
JOIN counters AS x ON x.trial_id = a.trial_id AND x.cache_mode = a.cache_mode
JOIN counters AS y ON y.trial_id = b.trial_id AND y.cache_mode = b.cache_mode AND y.metric = x.metric AND y.unit = x.unit
WHERE a.variant <> a.baseline;
