-- Events of a category, stream by stream: streams below $3, from behind version $2 of stream $1.
SELECT shard, position, stream, version, id, type, schema, data, meta, recorded_at
FROM events WHERE (stream, version) > ($1, $2) AND stream < $3 ORDER BY stream, version LIMIT $4
