-- Claims letters that nobody has: the row is the claim. A claim that its run did not follow up in time is
-- free again.
INSERT INTO dlq_settlements AS s (consumer, partition, "offset", action, state, run_id, actor, reason)
SELECT $1, l.partition, l."offset", $2, 'claimed', $3, $4, $5
FROM unnest($6::int[], $7::bigint[]) AS l (partition, "offset")
ORDER BY l.partition, l."offset" -- so that two runs can't wait for each other
ON CONFLICT (consumer, partition, "offset") DO UPDATE
SET action = excluded.action, run_id = excluded.run_id, actor = excluded.actor, reason = excluded.reason, claimed_at = now()
WHERE s.state = 'claimed' AND s.claimed_at < now() - $8::interval
RETURNING s.partition, s."offset"
