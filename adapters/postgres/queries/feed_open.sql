SELECT id, version FROM feed_rejects WHERE feed = $1 ORDER BY id LIMIT $2
