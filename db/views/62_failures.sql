-- Trials whose newest run failed, the newest first.
CREATE VIEW failures AS
SELECT family, variant, problem, tunables, device, state, error, message, recorded_at
FROM trials
WHERE state IN ('wrong_result', 'implausible', 'compile_error', 'launch_error', 'crashed', 'timed_out')
ORDER BY run_id DESC;
