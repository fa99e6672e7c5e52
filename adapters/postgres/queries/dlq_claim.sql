-- Claims letters that nobody has: the row is the claim. A claim that its run did not follow up in time is
-- free again.
INSERT INTO dlq_settlements AS s (consumer, partition, "offset", action, state, run_id, actor, reason)
SELECT $1, $2, l."offset", $3, 'claimed', $4, $5, $6
FROM unnest($7::bigint[]) AS l ("offset")
ORDER BY l."offset" -- so that two runs can't wait for each other
ON CONFLICT (consumer, partition, "offset") DO UPDATE
SET action = excluded.action, run_id = excluded.run_id, actor = excluded.actor, reason = excluded.reason, claimed_at = now()
WHERE s.state = 'claimed' AND s.claimed_at < now() - $8::interval
RETURNING s."offset"
