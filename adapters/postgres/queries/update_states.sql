-- Known streams, each only if it still has the version that was loaded.
WITH updated AS (
    UPDATE states t
    SET version = w.version, position = s.position - $2 + w.last, owner = w.owner, state = w.state::json
    FROM shards s, unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bigint[])
         AS w (category, key, version, last, owner, state, expected)
    WHERE s.shard = $1 AND t.category = w.category AND t.key = w.key AND t.version = w.expected
    RETURNING 1
)
SELECT require_rows(count(*), cardinality($3::text[])) FROM updated
