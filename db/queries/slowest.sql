-- The 20 right trials furthest behind the best of their problem, device, measure and method.
SELECT t.family, t.problem, t.device, t.measure, t.variant, t.tunables, t.median_us, b.variant AS best_variant,
    b.median_us AS best_us, t.median_us / NULLIF(b.median_us, 0) AS times_slower
FROM timings AS t
JOIN best AS b
    ON b.family = t.family
    AND b.problem_id = t.problem_id
    AND b.device_key = t.device_key
    AND b.measure = t.measure
    AND b.method = t.method
WHERE t.ranked = 1 AND t.expected = 'right'
ORDER BY times_slower DESC, t.timing_id
LIMIT 20;
