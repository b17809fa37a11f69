-- One row a launch, instruction and reason: how many samples found a warp there for that reason.
CREATE VIEW stalls AS
SELECT
    s.launch_id,
    CAST(c.key AS INTEGER) AS instruction,
    r.key AS reason,
    c.value AS samples
FROM source_counters AS s, json_each(s.stalls) AS r, json_each(r.value) AS c;
