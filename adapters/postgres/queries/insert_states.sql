-- New streams. A stream that is there already breaks the primary key: the expectation was wrong.
-- $2 is how many events the batch appended just before: last counts from the first of them.
INSERT INTO states (category, key, version, position, owner, state)
SELECT w.category, w.key, w.version, s.position - $2 + w.last, w.owner, w.state::json
FROM shards s, unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[])
     AS w (category, key, version, last, owner, state)
WHERE s.shard = $1
