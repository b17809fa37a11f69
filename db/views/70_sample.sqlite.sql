-- One row a timed execution, all of them, also those left out.
CREATE VIEW sample AS
SELECT
    s.timing_id,
    d.key AS ordinal,
    json_extract(s.rounds, '$[' || d.key || ']') AS round,
    CASE d.type WHEN 'real' THEN d.value WHEN 'integer' THEN CAST(d.value AS REAL) WHEN 'text' THEN CASE d.value WHEN '-Infinity' THEN -9e999 ELSE 9e999 END END AS duration_ns,
    json_extract(s.sm_clocks_mhz, '$[' || d.key || ']') AS sm_clock_mhz,
    COALESCE(json_extract(s.exclusions, '$[' || d.key || ']'), '') AS excluded
FROM samples AS s, json_each(s.durations_ns) AS d;
