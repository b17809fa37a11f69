-- One row a launch and machine instruction: where it comes from, how often it ran, how many samples found a warp waiting.
CREATE VIEW instructions AS
SELECT
    s.launch_id,
    p.trial_id,
    t.label,
    l.kernel,
    p.cache_mode,
    CAST(d.place - 1 AS INTEGER) AS instruction,
    COALESCE(CAST(s.offsets ->> CAST(d.place - 1 AS INTEGER) AS BIGINT), 16 * (d.place - 1)) AS offset_bytes,
    s.opcode_names ->> CAST(d.value AS INTEGER) AS opcode,
    CASE WHEN s.file_numbers ->> CAST(d.place - 1 AS INTEGER) = '-1' THEN NULL
        ELSE s.files ->> CAST(s.file_numbers ->> CAST(d.place - 1 AS INTEGER) AS INTEGER) END AS file,
    CAST(s.lines ->> CAST(d.place - 1 AS INTEGER) AS INTEGER) AS line,
    CAST(s.executed ->> CAST(d.place - 1 AS INTEGER) AS BIGINT) AS executed,
    CAST(s.threads ->> CAST(d.place - 1 AS INTEGER) AS BIGINT) AS threads,
    (
        SELECT COALESCE(SUM(w.samples), 0) FROM stalls AS w
        WHERE w.launch_id = s.launch_id AND w.instruction = d.place - 1 AND w.reason NOT IN ('selected', 'not_selected')
    ) AS stalled
FROM source_counters AS s
JOIN launch AS l ON l.id = s.launch_id
JOIN profile AS p ON p.id = l.profile_id
LEFT JOIN trial AS t ON t.id = p.trial_id
CROSS JOIN LATERAL json_array_elements_text(s.opcodes) WITH ORDINALITY AS d (value, place);
