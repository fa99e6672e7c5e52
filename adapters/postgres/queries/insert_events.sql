INSERT INTO events (shard, position, stream, version, id, type, schema, data, meta, recorded_at)
SELECT s.shard, s.position + e.place, e.stream, e.version, e.id, e.type, e.schema, e.data::json, e.meta::json, $9
FROM shards s, unnest($2::text[], $3::bigint[], $4::uuid[], $5::text[], $6::smallint[], $7::text[], $8::text[])
     WITH ORDINALITY AS e (stream, version, id, type, schema, data, meta, place)
WHERE s.shard = $1
