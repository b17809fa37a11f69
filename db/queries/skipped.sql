-- What could not run, and why.
SELECT family, backend, message, COUNT(*) AS trials
FROM trials
WHERE state = 'skipped'
GROUP BY family, backend, message
ORDER BY family, backend, message;
