-- update_states for one known stream.
WITH updated AS (
    UPDATE states t
    SET version = $4, position = s.position, owner = $5, state = $6
    FROM shards s
    WHERE s.shard = $1 AND t.category = $2 AND t.key = $3 AND t.version = $7
    RETURNING 1
)
SELECT require_rows(count(*), 1) FROM updated
