-- One row a trial, measure and method: the newest timing, of an ok run where there is one.
-- Bytes over nanoseconds are gigabytes (10^9) a second; operations over nanoseconds are GFLOP/s.
CREATE VIEW timings AS
SELECT
    t.id AS trial_id,
    t.identity,
    v.family,
    v.name AS variant,
    v.kind,
    v.backend,
    v.expected,
    v.ordinal AS variant_order,
    p.id AS problem_id,
    p.label AS problem,
    CAST(p.coordinates AS TEXT) AS problem_json,
    t.tunables_label AS tunables,
    CAST(t.tunables AS TEXT) AS tunables_json,
    d.name AS device,
    d.comparable AS device_key,
    t.state,
    r.state AS run_state,
    CASE WHEN k.is_right THEN 1 ELSE 0 END AS ranked,
    g.measure,
    g.method,
    g.median_ns * 1e-3 AS median_us,
    g.low_ns * 1e-3 AS low_us,
    g.high_ns * 1e-3 AS high_us,
    g.confidence,
    g.mean_ns * 1e-3 AS mean_us,
    g.stdev_ns * 1e-3 AS stdev_us,
    g.min_ns * 1e-3 AS min_us,
    g.max_ns * 1e-3 AS max_us,
    g.sample_count AS samples,
    g.excluded_count AS excluded,
    g.stopped_by,
    t.useful_bytes / NULLIF(g.median_ns, 0) AS bandwidth_gbs,
    t.flops / NULLIF(g.median_ns, 0) AS gflops,
    g.energy_j,
    g.mean_w,
    g.idle_w,
    g.rotation,
    g.id AS timing_id,
    r.id AS run_id,
    r.sweep_id,
    r.recorded_at,
    v.source_hash,
    t.label
FROM ranking AS k
CROSS JOIN timing AS g
JOIN run AS r ON r.id = g.run_id
JOIN trial AS t ON t.id = r.trial_id
JOIN variant AS v ON v.id = t.variant_id
JOIN problem AS p ON p.id = t.problem_id
LEFT JOIN device AS d ON d.id = k.device_id
WHERE k.sweep_id = 0 AND g.id = k.timing_id;
