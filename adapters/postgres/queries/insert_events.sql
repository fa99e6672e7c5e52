-- Allots positions and appends; gives the position before the first event. The notification reaches the
-- relay when the transaction commits.
WITH raised AS (
    UPDATE shards SET position = position + cardinality($2::text[]) WHERE shard = $1
    RETURNING shard, position - cardinality($2::text[]) AS base
), inserted AS (
    INSERT INTO events (shard, position, stream, version, id, type, schema, data, meta, recorded_at)
    SELECT r.shard, r.base + e.place, e.stream, e.version, e.id, e.type, e.schema, e.data::json, e.meta::json, $9
    FROM raised r, unnest($2::text[], $3::bigint[], $4::uuid[], $5::text[], $6::smallint[], $7::text[], $8::text[])
         WITH ORDINALITY AS e (stream, version, id, type, schema, data, meta, place)
)
SELECT base, pg_notify('andes_' || current_schema(), '') FROM raised
