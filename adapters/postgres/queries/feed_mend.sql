DELETE FROM feed_rejects WHERE feed = $1 AND id = ANY($2)
