-- Known streams, each only if it still has the version that was loaded. $1 as in insert_states.
WITH updated AS (
    UPDATE states t
    SET version = w.version, position = lastval() - $1::bigint + w.last, owner = w.owner, state = w.state::json
    FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::bigint[])
         AS w (category, key, version, last, owner, state, expected)
    WHERE t.category = w.category AND t.key = w.key AND t.version = w.expected
    RETURNING 1
)
SELECT require_rows(count(*), cardinality($2::text[])) FROM updated
