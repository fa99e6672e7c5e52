UPDATE shards SET position = position + $2 WHERE shard = $1 RETURNING position
