-- One row a configuration, problem, device, measure and method: how many times as long as the best of all it takes.
CREATE VIEW portfolio_ratios AS
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
    g.median_us / MIN(g.median_us) OVER (PARTITION BY g.family, g.device_key, g.measure, g.method, g.problem_id) AS ratio
FROM timings AS g
WHERE g.state = 'ok' AND g.expected = 'right' AND g.median_us > 0;
