-- The last event, and the last one that the relay published.
SELECT (SELECT coalesce(max(position), 0) FROM events WHERE shard = $1),
       (SELECT coalesce(max(position), 0) FROM checkpoints WHERE shard = $1 AND name = $2)
