-- Of a checkpoint that is refused nobody knows what was published.
SELECT coalesce((SELECT position FROM checkpoint_standings WHERE name = $1 AND shard = $2 AND NOT refused), 0)
