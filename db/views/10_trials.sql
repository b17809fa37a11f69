-- One row a trial: what it is, and what became of its newest run (a skipped run hides no other).
CREATE VIEW trials AS
SELECT
    t.id AS trial_id,
    t.identity,
    v.family,
    v.name AS variant,
    v.kind,
    v.backend,
    v.origin,
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
    t.message,
    r.check_error AS error,
    r.check_error_absolute AS error_absolute,
    r.check_error_relative AS error_relative,
    r.build_registers AS registers,
    r.build_shared_bytes AS shared_bytes,
    r.build_spill_bytes AS spill_bytes,
    t.useful_bytes,
    t.flops,
    r.id AS run_id,
    r.sweep_id,
    r.phase,
    r.duration_ns * 1e-9 AS duration_s,
    r.recorded_at,
    v.source_hash,
    t.label
FROM trial AS t
CROSS JOIN variant AS v
CROSS JOIN problem AS p
LEFT JOIN run AS r ON r.id = (
    SELECT n.id FROM run AS n
    WHERE n.trial_id = t.id
    ORDER BY CASE n.state WHEN 'skipped' THEN 1 ELSE 0 END, n.recorded_at DESC, n.id DESC
    LIMIT 1
)
LEFT JOIN device AS d ON d.id = COALESCE(r.device_id, t.device_id)
WHERE v.id = t.variant_id AND p.id = t.problem_id;
