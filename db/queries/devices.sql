-- Devices with what was last measured of them.
SELECT d.id AS device_id, d.backend, d.name, d.uuid, d.memory_bytes, c.read_bandwidth, c.event_overhead_ns, c.measured_at
FROM device AS d
LEFT JOIN calibration AS c
    ON c.device_id = d.id
    AND c.sweep_id = (SELECT MAX(n.sweep_id) FROM calibration AS n WHERE n.device_id = d.id)
ORDER BY d.id;
