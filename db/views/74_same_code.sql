-- One row a trial whose machine code another trial has as well: equal `sass_hash` means the same instructions.
CREATE VIEW same_code AS
WITH coded AS (
    SELECT r.trial_id, SUBSTR(r.build_sass_hash, 1, 40) AS sass_hash, MAX(r.id) AS run_id FROM run AS r
    WHERE r.build_sass_hash IS NOT NULL
    GROUP BY r.trial_id, SUBSTR(r.build_sass_hash, 1, 40)
)
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
FROM coded AS c
JOIN (SELECT sass_hash FROM coded GROUP BY sass_hash HAVING COUNT(*) > 1) AS several ON several.sass_hash = c.sass_hash
JOIN trial AS t ON t.id = c.trial_id
JOIN variant AS v ON v.id = t.variant_id
JOIN problem AS p ON p.id = t.problem_id;
