-- Allots positions in the order of the arrays, and gives them.
INSERT INTO events (shard, position, stream, version, id, type, schema, data, meta, recorded_at)
SELECT $1, nextval('position_0'), e.stream, e.version, e.id, e.type, e.schema, e.data::json, e.meta::json, $9
FROM unnest($2::text[], $3::bigint[], $4::uuid[], $5::text[], $6::smallint[], $7::text[], $8::text[])
     AS e (stream, version, id, type, schema, data, meta)
RETURNING position
