-- One row a configuration, problem, device, measure and method: how many times as long as the best of all it takes.
-- Earlier looks of a search have no row, and none is the best.
CREATE VIEW portfolio_ratios AS
WITH fastest AS MATERIALIZED (
    SELECT q.problem_id, e.comparable AS device_key, q.measure, q.method, MIN(q.median_ns) AS median_ns
    FROM (
        SELECT k.problem_id, k.variant_id, k.device_id, k.measure, k.method, MIN(k.median_ns) AS median_ns
        FROM ranking AS k
        WHERE k.is_right = TRUE AND k.sweep_id = 0 AND k.median_ns > 0
        GROUP BY k.problem_id, k.variant_id, k.device_id, k.measure, k.method
    ) AS q
    JOIN variant AS u ON u.id = q.variant_id
    LEFT JOIN device AS e ON e.id = q.device_id
    WHERE u.expected = 'right'
    GROUP BY q.problem_id, e.comparable, q.measure, q.method
)
SELECT
    g.family,
    g.device,
    g.device_key,
    g.measure,
    g.method,
    g.variant,
    g.tunables,
    g.tunables_json,
    g.problem,
    g.problem_json,
    g.median_us,
    g.median_us / (f.median_ns * 1e-3) AS ratio
FROM timings AS g
JOIN fastest AS f ON f.problem_id = g.problem_id
    AND f.device_key = g.device_key AND f.measure = g.measure AND f.method = g.method
WHERE g.ranked = 1 AND g.expected = 'right' AND g.median_us > 0;
