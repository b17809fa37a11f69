-- One row a sweep, variant, problem, device, measure and method: the variant's fastest tunables among its right results.
-- A run that is not ok, a trial found wrong since, and a variant known to be wrong have no place here.
CREATE VIEW sweep_fastest AS
WITH groups AS MATERIALIZED (
    -- the fastest tunables of one version of a variant on one card
    SELECT
        k.sweep_id,
        k.problem_id,
        k.variant_id,
        k.device_id,
        k.measure,
        k.method,
        COUNT(*) AS members,
        MIN(k.ordinal) AS first_ordinal,
        MIN(k.median_ns) AS median_ns,
        (
            SELECT x.timing_id FROM ranking AS x
            WHERE x.is_right = TRUE
                AND x.sweep_id = k.sweep_id AND x.problem_id = k.problem_id AND x.variant_id = k.variant_id
                AND x.device_id = k.device_id AND x.measure = k.measure AND x.method = k.method
            ORDER BY x.median_ns, x.ordinal, x.timing_id
            LIMIT 1
        ) AS timing_id
    FROM ranking AS k
    WHERE k.is_right = TRUE AND k.sweep_id > 0
    GROUP BY k.sweep_id, k.problem_id, k.variant_id, k.device_id, k.measure, k.method
),
ranked AS MATERIALIZED (
    SELECT
        q.*,
        e.comparable AS device_key,
        MIN(q.first_ordinal) OVER (PARTITION BY q.sweep_id, q.problem_id, u.name) AS position,
        SUM(q.members) OVER alike AS candidates,
        ROW_NUMBER() OVER (alike ORDER BY q.median_ns, k.ordinal) AS place
    FROM groups AS q
    JOIN variant AS u ON u.id = q.variant_id
    JOIN ranking AS k ON k.sweep_id = q.sweep_id AND k.timing_id = q.timing_id
    LEFT JOIN device AS e ON e.id = q.device_id
    WHERE u.expected = 'right'
    WINDOW alike AS (PARTITION BY q.sweep_id, u.name, q.problem_id, e.comparable, q.measure, q.method)
)
SELECT
    s.id AS sweep_id,
    s.name AS sweep,
    s.experiment,
    s.baseline,
    w.position,
    v.family,
    v.name AS variant,
    v.kind,
    v.backend,
    v.origin,
    p.id AS problem_id,
    p.label AS problem,
    CAST(p.coordinates AS TEXT) AS problem_json,
    t.tunables_label AS tunables,
    CAST(t.tunables AS TEXT) AS tunables_json,
    d.name AS device,
    w.device_key,
    w.measure,
    w.method,
    g.median_ns * 1e-3 AS median_us,
    g.low_ns * 1e-3 AS low_us,
    g.high_ns * 1e-3 AS high_us,
    g.sample_count AS samples,
    t.useful_bytes / NULLIF(g.median_ns, 0) AS bandwidth_gbs,
    t.flops / NULLIF(g.median_ns, 0) AS gflops,
    w.candidates,
    t.id AS trial_id,
    t.identity,
    g.id AS timing_id,
    g.run_id
FROM ranked AS w
CROSS JOIN timing AS g
JOIN sweep AS s ON s.id = w.sweep_id
JOIN run AS r ON r.id = g.run_id
JOIN trial AS t ON t.id = r.trial_id
JOIN variant AS v ON v.id = t.variant_id
JOIN problem AS p ON p.id = t.problem_id
LEFT JOIN device AS d ON d.id = w.device_id
WHERE w.place = 1 AND g.id = w.timing_id;
