-- One row a sweep and trial: what became of the run that this sweep goes by ('planned' where it has none yet).
CREATE VIEW sweep_trials AS
SELECT
    s.id AS sweep_id,
    s.name AS sweep,
    s.experiment,
    s.baseline,
    m.ordinal,
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
    d.id AS device_id,
    d.name AS device,
    d.comparable AS device_key,
    COALESCE(r.state, 'planned') AS state,
    COALESCE(r.message, m.unavailable_reason, '') AS message,
    t.state AS newest_state,
    r.phase,
    r.check_error AS error,
    r.check_error_absolute AS error_absolute,
    r.check_error_relative AS error_relative,
    r.build_registers AS registers,
    r.build_shared_bytes AS shared_bytes,
    r.build_spill_bytes AS spill_bytes,
    t.useful_bytes,
    t.flops,
    r.id AS run_id,
    CASE WHEN m.reused THEN 1 ELSE 0 END AS reused,
    r.duration_ns * 1e-9 AS duration_s,
    r.recorded_at,
    v.source_hash,
    t.label
FROM sweep_trial AS m
JOIN sweep AS s ON s.id = m.sweep_id
JOIN trial AS t ON t.id = m.trial_id
JOIN variant AS v ON v.id = t.variant_id
JOIN problem AS p ON p.id = t.problem_id
LEFT JOIN run AS r ON r.id = m.run_id
LEFT JOIN device AS d ON d.id = COALESCE(r.device_id, m.device_id, t.device_id);
