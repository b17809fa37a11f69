-- What could not run, and why.
SELECT family, backend, state, message, COUNT(*) AS trials
FROM trials
WHERE state IN ('skipped', 'impossible')
GROUP BY family, backend, state, message
ORDER BY family, backend, state, message;
