-- One row a launch and source line: its instructions, how often they ran, and its share of the samples of waiting warps.
CREATE VIEW source_lines AS
SELECT
    i.launch_id,
    i.trial_id,
    i.label,
    i.kernel,
    i.cache_mode,
    i.file,
    i.line,
    COUNT(*) AS instructions,
    SUM(i.executed) AS executed,
    SUM(i.stalled) AS stalled,
    1.0 * SUM(i.stalled) / NULLIF((SELECT SUM(w.samples) FROM stalls AS w
        WHERE w.launch_id = i.launch_id AND w.reason NOT IN ('selected', 'not_selected')), 0) AS share
FROM instructions AS i
GROUP BY i.launch_id, i.trial_id, i.label, i.kernel, i.cache_mode, i.file, i.line;
