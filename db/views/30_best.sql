-- One row a family, problem, device, measure and method: the fastest right variant with its tunables, of all sweeps.
-- `candidates` says how many trials it was the fastest of. Timings of different methods are never mixed; those of more
-- samples come first. Of a variant only the source counts that its newest sweep on the device went by.
-- Of what a search looked at again the earlier looks do not count: the luckiest of them would be best.
CREATE VIEW best AS
WITH swept AS MATERIALIZED (
    SELECT DISTINCT m.sweep_id, t.variant_id, COALESCE(m.device_id, t.device_id) AS device_id
    FROM sweep_trial AS m
    JOIN trial AS t ON t.id = m.trial_id
    WHERE m.run_id IS NOT NULL AND m.unavailable_reason IS NULL
),
newest AS MATERIALIZED (
    SELECT DISTINCT a.variant_id, a.device_key
    FROM (
        SELECT
            h.variant_id,
            COALESCE(e.comparable, '') AS device_key,
            RANK() OVER (PARTITION BY u.family, u.name, e.comparable ORDER BY s.started_at DESC, s.id DESC) AS place
        FROM swept AS h
        JOIN variant AS u ON u.id = h.variant_id
        JOIN sweep AS s ON s.id = h.sweep_id
        LEFT JOIN device AS e ON e.id = h.device_id
    ) AS a
    WHERE a.place = 1
),
groups AS MATERIALIZED (
    SELECT
        k.problem_id,
        k.variant_id,
        k.device_id,
        k.measure,
        k.method,
        COUNT(*) AS members,
        MIN(k.median_ns) AS median_ns,
        (
            SELECT x.timing_id FROM ranking AS x
            WHERE x.is_right = TRUE
                AND x.sweep_id = 0 AND x.problem_id = k.problem_id AND x.variant_id = k.variant_id
                AND x.device_id = k.device_id AND x.measure = k.measure AND x.method = k.method
            ORDER BY x.median_ns, x.ordinal, x.timing_id
            LIMIT 1
        ) AS timing_id
    FROM ranking AS k
    WHERE k.is_right = TRUE AND k.sweep_id = 0
    GROUP BY k.problem_id, k.variant_id, k.device_id, k.measure, k.method
),
ranked AS MATERIALIZED (
    SELECT
        q.timing_id,
        SUM(q.members) OVER alike AS candidates,
        ROW_NUMBER() OVER (alike ORDER BY q.median_ns, q.timing_id) AS place
    FROM groups AS q
    JOIN variant AS u ON u.id = q.variant_id
    LEFT JOIN device AS e ON e.id = q.device_id
    JOIN newest AS n ON n.variant_id = q.variant_id AND n.device_key = COALESCE(e.comparable, '')
    WHERE u.expected = 'right'
    WINDOW alike AS (PARTITION BY u.family, q.problem_id, e.comparable, q.measure, q.method)
)
SELECT
    g.family,
    g.problem,
    g.device,
    g.measure,
    g.variant,
    g.tunables,
    g.median_us,
    g.low_us,
    g.high_us,
    g.bandwidth_gbs,
    g.gflops,
    g.samples,
    w.candidates,
    g.kind,
    g.method,
    g.problem_id,
    g.problem_json,
    g.tunables_json,
    g.device_key,
    g.trial_id,
    g.identity,
    g.run_id,
    g.sweep_id,
    g.recorded_at
FROM ranked AS w
CROSS JOIN timings AS g
WHERE w.place = 1 AND g.timing_id = w.timing_id
ORDER BY g.family, g.problem, g.device, g.measure, g.samples DESC, g.recorded_at DESC, g.method, g.variant;
