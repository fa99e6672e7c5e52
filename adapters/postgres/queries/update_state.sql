-- update_states for one known stream and one event.
WITH updated AS (
    UPDATE states
    SET version = $3, position = lastval(), owner = $4, state = $5
    WHERE category = $1 AND key = $2 AND version = $6
    RETURNING 1
)
SELECT require_rows(count(*), 1) FROM updated
