-- New streams. A stream that is there already breaks the primary key: the expectation was wrong.
-- $1 is how many events this session appended just before; last counts from the first of them.
INSERT INTO states (category, key, version, position, owner, state)
SELECT w.category, w.key, w.version, lastval() - $1::bigint + w.last, w.owner, w.state::json
FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])
     AS w (category, key, version, last, owner, state)
