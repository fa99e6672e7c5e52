UPDATE feed_rejects SET again = false
WHERE feed = $1 AND id IN (SELECT id FROM feed_rejects WHERE feed = $1 AND again ORDER BY id LIMIT $2)
RETURNING id
