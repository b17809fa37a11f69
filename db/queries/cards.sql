-- Cards that measured the same trials in one sweep (device.cuda=each, or a problem cut in blocks): the slowest one first.
-- ratio: a card's median over the mean of all cards' medians of that trial, averaged over the trials.
WITH card AS (
    SELECT
        r.sweep_id, r.trial_id, r.device_id, g.measure, g.method, AVG(g.median_ns) AS median_ns
    FROM run AS r
    JOIN timing AS g ON g.run_id = r.id
    WHERE r.state = 'ok' AND r.job IS NOT NULL AND g.median_ns IS NOT NULL
    GROUP BY r.sweep_id, r.trial_id, r.device_id, g.measure, g.method
),
shared AS (
    SELECT sweep_id, trial_id, measure, method, AVG(median_ns) AS mean_ns
    FROM card
    GROUP BY sweep_id, trial_id, measure, method
    HAVING COUNT(*) > 1
)
SELECT
    c.sweep_id, d.name AS device, d.ordinal AS card, d.uuid, c.measure, COUNT(*) AS trials,
    AVG(c.median_ns / s.mean_ns) AS ratio,
    MIN(c.median_ns / s.mean_ns) AS least_ratio,
    MAX(c.median_ns / s.mean_ns) AS largest_ratio
FROM card AS c
JOIN shared AS s
    ON s.sweep_id = c.sweep_id AND s.trial_id = c.trial_id AND s.measure = c.measure AND s.method = c.method
JOIN device AS d ON d.id = c.device_id
GROUP BY c.sweep_id, d.id, d.name, d.ordinal, d.uuid, c.measure
ORDER BY c.sweep_id DESC, c.measure, ratio DESC;
