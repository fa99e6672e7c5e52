SELECT id, version, code, detail, times, first_at, last_at, again FROM feed_rejects
WHERE feed = $1 AND id > $2 ORDER BY id LIMIT $3
