-- One row a run of a sweep and measure in the order of measuring: its time, and the best of its problem until then.
-- A run without a time stands under the first measure that its sweep has.
CREATE VIEW search_progress AS
WITH usual AS MATERIALIZED (
    SELECT k.sweep_id, MIN(k.measure) AS measure FROM ranking AS k WHERE k.sweep_id > 0 GROUP BY k.sweep_id
),
runs AS (
    SELECT
        r.sweep_id,
        t.problem_id,
        COALESCE(m.measure, u.measure) AS measure,
        r.id AS run_id,
        r.trial_id,
        m.id AS timing_id,
        CASE WHEN r.state = 'ok' THEN m.median_ns END AS median_ns
    FROM run AS r
    JOIN trial AS t ON t.id = r.trial_id
    LEFT JOIN timing AS m ON m.run_id = r.id
    LEFT JOIN usual AS u ON u.sweep_id = r.sweep_id
),
looks AS (
    SELECT
        runs.*,
        ROW_NUMBER() OVER until_then AS look,
        MIN(median_ns) OVER until_then AS best_ns
    FROM runs
    WINDOW until_then AS (PARTITION BY sweep_id, problem_id, measure ORDER BY run_id)
)
SELECT
    l.sweep_id,
    s.name AS sweep,
    v.family,
    p.id AS problem_id,
    p.label AS problem,
    v.name AS variant,
    t.tunables_label AS tunables,
    l.look,
    (
        SELECT COUNT(*) FROM run AS x
        LEFT JOIN timing AS y ON y.run_id = x.id
        WHERE x.trial_id = l.trial_id AND x.sweep_id = l.sweep_id AND x.id <= l.run_id
            AND COALESCE(y.measure, l.measure, '') = COALESCE(l.measure, '')
    ) AS look_of_trial,
    r.recorded_at,
    r.state,
    l.measure,
    m.method,
    m.sample_count AS samples,
    m.median_ns * 1e-3 AS median_us,
    l.best_ns * 1e-3 AS best_us,
    t.id AS trial_id,
    l.run_id
FROM looks AS l
CROSS JOIN run AS r
JOIN sweep AS s ON s.id = r.sweep_id
JOIN trial AS t ON t.id = r.trial_id
JOIN variant AS v ON v.id = t.variant_id
JOIN problem AS p ON p.id = t.problem_id
LEFT JOIN timing AS m ON m.id = l.timing_id
WHERE r.id = l.run_id;
