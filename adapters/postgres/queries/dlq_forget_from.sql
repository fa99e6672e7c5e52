-- Settlements of letters that had these offsets in a topic of the same name. One that is young may be that of the
-- letter itself.
DELETE FROM dlq_settlements
WHERE consumer = $1 AND partition = $2 AND "offset" >= $3 AND claimed_at < now() - $4::interval
