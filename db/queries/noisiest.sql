-- The 20 timings whose median is known least well: half the width of its interval in percent, and the level of that.
-- One sample has no interval at all, and comes first.
SELECT family, problem, device, measure, variant, tunables, median_us,
    CASE WHEN samples > 1 THEN 50.0 * (high_us - low_us) / NULLIF(median_us, 0) END AS interval_percent,
    confidence, samples, excluded, stopped_by
FROM timings
WHERE median_us IS NOT NULL
ORDER BY CASE WHEN samples > 1 THEN 1 ELSE 0 END, interval_percent DESC, timing_id
LIMIT 20;
