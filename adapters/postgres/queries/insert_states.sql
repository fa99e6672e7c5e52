-- New streams. A stream that is there already breaks the primary key: the expectation was wrong.
INSERT INTO states (category, key, version, position, owner, state)
SELECT w.category, w.key, w.version, s.position + w.last, w.owner, w.state::json
FROM shards s, unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])
     AS w (category, key, version, last, owner, state)
WHERE s.shard = $1
