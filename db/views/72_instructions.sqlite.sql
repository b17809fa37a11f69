-- One row a launch and machine instruction: where it comes from, how often it ran, how many samples found a warp waiting.
CREATE VIEW instructions AS
SELECT
    s.launch_id,
    p.trial_id,
    t.label,
    l.kernel,
    p.cache_mode,
    d.key AS instruction,
    COALESCE(json_extract(s.offsets, '$[' || d.key || ']'), 16 * d.key) AS offset_bytes,
    json_extract(s.opcode_names, '$[' || d.value || ']') AS opcode,
    json_extract(s.files, '$[' || json_extract(s.file_numbers, '$[' || d.key || ']') || ']') AS file,
    json_extract(s.lines, '$[' || d.key || ']') AS line,
    json_extract(s.executed, '$[' || d.key || ']') AS executed,
    json_extract(s.threads, '$[' || d.key || ']') AS threads,
    (
        SELECT COALESCE(SUM(w.samples), 0) FROM stalls AS w
        WHERE w.launch_id = s.launch_id AND w.instruction = d.key AND w.reason NOT IN ('selected', 'not_selected')
    ) AS stalled
FROM source_counters AS s
JOIN launch AS l ON l.id = s.launch_id
JOIN profile AS p ON p.id = l.profile_id
LEFT JOIN trial AS t ON t.id = p.trial_id, json_each(s.opcodes) AS d;
