SELECT shard, position, stream, version, id, type, schema, data, meta, recorded_at
FROM events WHERE shard = $1 AND position > $2 ORDER BY position LIMIT $3
