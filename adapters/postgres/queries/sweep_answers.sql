DELETE FROM answers WHERE (scope, key) IN (
    SELECT scope, key FROM answers WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
)
