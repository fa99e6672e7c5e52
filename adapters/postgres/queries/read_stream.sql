SELECT shard, position, stream, version, id, type, schema, data, meta, recorded_at
FROM events WHERE stream = $1 AND version > $2 ORDER BY version LIMIT $3
