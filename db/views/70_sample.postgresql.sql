-- One row a timed execution, all of them, also those left out.
CREATE VIEW sample AS
SELECT
    s.timing_id,
    CAST(d.place - 1 AS INTEGER) AS ordinal,
    CAST(s.rounds ->> CAST(d.place - 1 AS INTEGER) AS INTEGER) AS round,
    CAST(d.value AS DOUBLE PRECISION) AS duration_ns,
    CAST(s.sm_clocks_mhz ->> CAST(d.place - 1 AS INTEGER) AS DOUBLE PRECISION) AS sm_clock_mhz,
    COALESCE(s.exclusions ->> CAST(d.place - 1 AS INTEGER), '') AS excluded
FROM samples AS s
CROSS JOIN LATERAL json_array_elements_text(s.durations_ns) WITH ORDINALITY AS d (value, place);
