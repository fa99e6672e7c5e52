-- When a stream was last changed.
SELECT recorded_at FROM events WHERE shard = $1 AND position = (SELECT position FROM states WHERE category = $2 AND key = $3)
