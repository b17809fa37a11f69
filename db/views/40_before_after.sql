-- One row a sweep, problem, device, measure, method and variant other than the baseline:
-- the baseline at its fastest tunables (before) and the variant at its own (after). ratio 2 = twice as fast.
CREATE VIEW before_after AS
SELECT
    a.sweep_id,
    a.sweep,
    a.experiment,
    a.family,
    a.problem,
    a.device,
    a.measure,
    a.baseline,
    b.tunables AS baseline_tunables,
    a.variant,
    a.tunables,
    b.median_us AS before_us,
    a.median_us AS after_us,
    b.median_us / NULLIF(a.median_us, 0) AS ratio,
    b.median_us - a.median_us AS saved_us,
    100.0 * (b.median_us - a.median_us) / NULLIF(b.median_us, 0) AS saved_percent,
    b.bandwidth_gbs AS before_gbs,
    a.bandwidth_gbs AS after_gbs,
    b.low_us AS before_low_us,
    b.high_us AS before_high_us,
    a.low_us AS after_low_us,
    a.high_us AS after_high_us,
    a.kind,
    a.position,
    a.method,
    a.problem_id,
    a.problem_json,
    a.device_key,
    b.trial_id AS before_trial_id,
    a.trial_id AS after_trial_id,
    b.timing_id AS before_timing_id,
    a.timing_id AS after_timing_id
FROM sweep_fastest AS a
JOIN sweep_fastest AS b
    ON b.sweep_id = a.sweep_id
    AND b.family = a.family
    AND b.problem_id = a.problem_id
    AND b.device_key = a.device_key
    AND b.measure = a.measure
    AND b.method = a.method
    AND b.variant = a.baseline
WHERE a.variant <> a.baseline;
