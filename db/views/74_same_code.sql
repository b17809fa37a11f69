-- One row a trial whose machine code another trial has as well: equal `sass_hash` means the same instructions.
CREATE VIEW same_code AS
SELECT
    c.sass_hash,
    v.family,
    v.name AS variant,
    t.tunables_label AS tunables,
    p.label AS problem,
    c.trial_id,
    t.label,
    c.run_id,
    v.source_hash
FROM (
    SELECT r.trial_id, r.build_sass_hash AS sass_hash, MAX(r.id) AS run_id FROM run AS r
    WHERE r.build_sass_hash IS NOT NULL
    GROUP BY r.trial_id, r.build_sass_hash
) AS c
JOIN trial AS t ON t.id = c.trial_id
JOIN variant AS v ON v.id = t.variant_id
JOIN problem AS p ON p.id = t.problem_id
WHERE EXISTS (
    SELECT 1 FROM run AS o WHERE o.build_sass_hash = c.sass_hash AND o.trial_id <> c.trial_id
);
