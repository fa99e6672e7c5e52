SELECT coalesce((SELECT position FROM checkpoints WHERE name = $1 AND shard = $2), 0)
