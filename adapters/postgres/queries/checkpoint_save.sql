UPDATE checkpoints SET position = $3, event = (SELECT id FROM events WHERE shard = $2 AND position = $3)
WHERE name = $1 AND shard = $2
