SELECT "offset", action, state = 'done', state = 'claimed' AND claimed_at < now() - $5::interval,
       run_id, actor, reason, coalesce(done_at, claimed_at)
FROM dlq_settlements
WHERE consumer = $1 AND partition = $2 AND "offset" >= $3 AND "offset" < $4
