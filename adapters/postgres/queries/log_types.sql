-- The next events of the log, up to a position ($4), counted by type.
SELECT type, count(*), max(position)
FROM (SELECT type, position FROM events WHERE shard = $1 AND position > $2 AND position <= $4 ORDER BY position LIMIT $3) AS page
GROUP BY type
