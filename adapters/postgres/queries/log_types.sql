-- The next events of the log, counted by type.
SELECT type, count(*), max(position)
FROM (SELECT type, position FROM events WHERE shard = $1 AND position > $2 ORDER BY position LIMIT $3) AS page
GROUP BY type
