DELETE FROM dlq_settlements s
USING unnest($3::int[], $4::bigint[]) AS l (partition, "offset")
WHERE s.consumer = $1 AND s.run_id = $2 AND s.state = 'claimed' AND s.partition = l.partition AND s."offset" = l."offset"
