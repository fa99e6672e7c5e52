INSERT INTO feed_rejects AS kept (feed, id, version, code, detail, times, first_at, last_at, again)
VALUES ($1, $2, $3, $4, $5, 1, now(), now(), false)
ON CONFLICT (feed, id) DO UPDATE
SET version = excluded.version, code = excluded.code, detail = excluded.detail, times = kept.times + 1, last_at = now()
