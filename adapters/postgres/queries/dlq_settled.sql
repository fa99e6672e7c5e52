-- The letters of a consumer that are done with: a claim is not, for what it was made for may not have
-- been sent.
SELECT partition, "offset" FROM dlq_settlements WHERE consumer = $1 AND state = 'done' ORDER BY partition, "offset"
