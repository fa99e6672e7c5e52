SELECT coalesce(max("offset"), -1) FROM dlq_settlements WHERE consumer = $1 AND partition = $2
