-- One row a run of a sweep and measure in the order of measuring: its time, and the best of its problem until then.
CREATE VIEW search_progress AS
SELECT
    r.sweep_id,
    s.name AS sweep,
    v.family,
    p.id AS problem_id,
    p.label AS problem,
    v.name AS variant,
    t.tunables_label AS tunables,
    ROW_NUMBER() OVER (PARTITION BY r.sweep_id, p.id, m.measure ORDER BY r.id) AS look,
    COUNT(*) OVER (PARTITION BY r.sweep_id, t.id, m.measure ORDER BY r.id) AS look_of_trial,
    r.recorded_at,
    r.state,
    m.measure,
    m.method,
    m.sample_count AS samples,
    m.median_ns * 1e-3 AS median_us,
    MIN(CASE WHEN r.state = 'ok' THEN m.median_ns END)
        OVER (PARTITION BY r.sweep_id, p.id, m.measure ORDER BY r.id) * 1e-3 AS best_us,
    t.id AS trial_id,
    r.id AS run_id
FROM run AS r
JOIN sweep AS s ON s.id = r.sweep_id
JOIN trial AS t ON t.id = r.trial_id
JOIN variant AS v ON v.id = t.variant_id
JOIN problem AS p ON p.id = t.problem_id
LEFT JOIN timing AS m ON m.run_id = r.id;
