-- One row a trial, metric, cache mode, clock control and replay mode: the newest value, rolled up over the trial's launches by `rollup`.
-- Launches that belong to no trial have trial_id NULL and stand under the name they were taken in with.
CREATE VIEW counters AS
WITH ranked AS MATERIALIZED (
    SELECT
        c.profile_id,
        c.metric_id,
        ROW_NUMBER() OVER (
            PARTITION BY
                f.trial_id,
                CASE WHEN f.trial_id IS NULL THEN f.name END,
                CASE WHEN f.trial_id IS NULL THEN f.artifact_id END,
                m.name,
                c.cache_mode,
                f.clock_control,
                f.replay
            ORDER BY f.recorded_at DESC, f.id DESC
        ) AS place
    FROM trial_counter AS c
    JOIN profile AS f ON f.id = c.profile_id
    JOIN metric AS m ON m.id = c.metric_id
)
SELECT
    f.trial_id,
    t.identity,
    v.family,
    v.name AS variant,
    v.kind,
    p.id AS problem_id,
    p.label AS problem,
    CAST(p.coordinates AS TEXT) AS problem_json,
    t.tunables_label AS tunables,
    CAST(t.tunables AS TEXT) AS tunables_json,
    d.name AS device,
    d.comparable AS device_key,
    COALESCE(t.label, f.name) AS name,
    c.cache_mode,
    f.clock_control,
    f.replay,
    m.name AS metric,
    c.value,
    m.unit,
    c.text,
    m.rollup,
    m.meaning,
    CAST(c.instances AS TEXT) AS instances,
    (SELECT COUNT(*) FROM launch AS l WHERE l.profile_id = f.id) AS launches,
    f.metric_set,
    f.id AS profile_id,
    f.sweep_id,
    a.path AS artifact,
    f.recorded_at
FROM ranked
JOIN trial_counter AS c ON c.profile_id = ranked.profile_id AND c.metric_id = ranked.metric_id
JOIN profile AS f ON f.id = c.profile_id
JOIN metric AS m ON m.id = c.metric_id
LEFT JOIN artifact AS a ON a.id = f.artifact_id
LEFT JOIN trial AS t ON t.id = f.trial_id
LEFT JOIN variant AS v ON v.id = t.variant_id
LEFT JOIN problem AS p ON p.id = t.problem_id
LEFT JOIN device AS d ON d.id = t.device_id
WHERE ranked.place = 1;
