-- Every sweep with its counts of trials by state, the newest first.
SELECT s.id AS sweep_id, s.name, s.experiment, s.state, s.started_at, s.finished_at, s.host,
    COUNT(m.trial_id) AS trials,
    SUM(CASE m.state WHEN 'ok' THEN 1 ELSE 0 END) AS ok,
    SUM(CASE WHEN m.state IN ('wrong_result', 'implausible', 'compile_error', 'launch_error', 'crashed', 'timed_out') THEN 1 ELSE 0 END)
        AS failed,
    SUM(CASE m.state WHEN 'impossible' THEN 1 ELSE 0 END) AS impossible,
    SUM(CASE m.state WHEN 'skipped' THEN 1 ELSE 0 END) AS skipped,
    SUM(CASE WHEN m.state <> 'skipped' THEN m.reused ELSE 0 END) AS reused
FROM sweep AS s
LEFT JOIN sweep_trials AS m ON m.sweep_id = s.id
GROUP BY s.id, s.name, s.experiment, s.state, s.started_at, s.finished_at, s.host
ORDER BY s.started_at DESC, s.id DESC;
