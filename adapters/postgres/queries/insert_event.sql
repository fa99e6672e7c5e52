-- insert_events for a batch of one event, which a lonely caller waits for: no arrays to take apart.
INSERT INTO events (shard, position, stream, version, id, type, schema, data, meta, recorded_at)
VALUES ($1, nextval('position_0'), $2, $3, $4, $5, $6, $7, $8, $9)
RETURNING position
