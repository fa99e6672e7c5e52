SELECT position, event_position IS NOT NULL, refused FROM checkpoint_standings WHERE name = $1 AND shard = $2
