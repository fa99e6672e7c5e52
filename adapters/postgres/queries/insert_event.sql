-- insert_events for a batch of one event, which a lonely caller waits for: no arrays to take apart.
WITH raised AS (
    UPDATE shards SET position = position + 1 WHERE shard = $1 RETURNING shard, position
), inserted AS (
    INSERT INTO events (shard, position, stream, version, id, type, schema, data, meta, recorded_at)
    SELECT shard, position, $2, $3, $4, $5, $6, $7, $8, $9 FROM raised
)
SELECT position - 1, pg_notify('andes_' || current_schema(), '') FROM raised
