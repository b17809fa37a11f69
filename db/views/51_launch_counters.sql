-- One row a launch and metric, of every profile ever stored: the values as Nsight Compute gave them.
CREATE VIEW launch_counters AS
SELECT
    f.id AS profile_id,
    f.trial_id,
    t.identity,
    COALESCE(t.label, f.name) AS name,
    f.state,
    l.id AS launch_id,
    l.ordinal,
    l.kernel,
    l.grid_x,
    l.grid_y,
    l.grid_z,
    l.block_x,
    l.block_y,
    l.block_z,
    l.registers,
    l.shared_static_bytes,
    l.shared_dynamic_bytes,
    l.duration_ns,
    c.cache_mode,
    f.clock_control,
    f.replay,
    m.name AS metric,
    c.value,
    m.unit,
    c.text,
    CAST(c.instances AS TEXT) AS instances,
    a.path AS artifact,
    f.recorded_at
FROM launch AS l
JOIN profile AS f ON f.id = l.profile_id
JOIN counter AS c ON c.launch_id = l.id
JOIN metric AS m ON m.id = c.metric_id
LEFT JOIN artifact AS a ON a.id = f.artifact_id
LEFT JOIN trial AS t ON t.id = f.trial_id;
