-- What choosing tunables is worth: the fastest and the slowest choice of each variant.
SELECT family, problem, device, measure, variant, COUNT(*) AS choices, MIN(median_us) AS fastest_us,
    MAX(median_us) AS slowest_us, MAX(median_us) / NULLIF(MIN(median_us), 0) AS spread
FROM timings
WHERE ranked = 1 AND expected = 'right'
GROUP BY family, problem_id, problem, device_key, device, measure, method, variant
HAVING COUNT(*) > 1
ORDER BY spread DESC;
