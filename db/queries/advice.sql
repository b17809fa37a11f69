-- Nsight Compute's advice, that with the largest estimated speedup first.
SELECT f.name, l.kernel, n.severity, n.speedup AS speedup_percent, n.title, n.text, n.section, n.rule
FROM advice AS n
JOIN launch AS l ON l.id = n.launch_id
JOIN profile AS f ON f.id = l.profile_id
WHERE n.severity <> 'ok'
ORDER BY CASE WHEN n.speedup IS NULL THEN 1 ELSE 0 END, n.speedup DESC, n.id;
