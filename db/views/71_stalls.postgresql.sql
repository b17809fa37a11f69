-- One row a launch, instruction and reason: how many samples found a warp there for that reason.
CREATE VIEW stalls AS
SELECT
    s.launch_id,
    CAST(c.key AS INTEGER) AS instruction,
    r.key AS reason,
    CAST(c.value AS INTEGER) AS samples
FROM source_counters AS s
CROSS JOIN LATERAL json_each(s.stalls) AS r
CROSS JOIN LATERAL json_each_text(r.value) AS c;
