SELECT count(*) FROM dlq_settlements WHERE consumer = $1 AND partition = $2 AND "offset" >= $3 AND state = 'done'
