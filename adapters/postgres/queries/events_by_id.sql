SELECT e.shard, e.position, e.stream, e.version, e.id, e.type, e.schema, e.data, e.meta, e.recorded_at
FROM unnest($1::uuid[]) AS wanted (id)
JOIN events e ON e.id = wanted.id
