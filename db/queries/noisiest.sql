-- The 20 timings whose median is known least well: half the width of its interval in percent.
SELECT family, problem, device, measure, variant, tunables, median_us,
    50.0 * (high_us - low_us) / NULLIF(median_us, 0) AS interval_percent, samples, excluded, stopped_by
FROM timings
WHERE median_us IS NOT NULL
ORDER BY interval_percent DESC, timing_id
LIMIT 20;
