SELECT feed, count(*) FROM feed_rejects GROUP BY feed
