DELETE FROM dlq_settlements
WHERE consumer = $1 AND run_id = $2 AND state = 'claimed' AND partition = $3 AND "offset" = ANY ($4::bigint[])
