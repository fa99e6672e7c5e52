-- Where events are, without what they say: what followers of changes need of the log.
SELECT position, stream FROM events WHERE shard = $1 AND position > $2 AND position <= $3 ORDER BY position LIMIT $4
