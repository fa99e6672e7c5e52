-- The first offset from $3 on without a row that is done: $3 itself, or the end of the unbroken chain of
-- such rows that begins there. The rows are read in the order of the primary key, and no further than to the
-- first gap.
SELECT coalesce((
    SELECT chain."offset" + 1
    FROM (
        SELECT "offset", lead("offset") OVER (ORDER BY "offset") AS next
        FROM dlq_settlements WHERE consumer = $1 AND partition = $2 AND "offset" >= $3 AND state = 'done'
    ) AS chain
    WHERE chain.next IS DISTINCT FROM chain."offset" + 1
      AND EXISTS (SELECT FROM dlq_settlements f WHERE f.consumer = $1 AND f.partition = $2 AND f."offset" = $3 AND f.state = 'done')
    ORDER BY chain."offset" LIMIT 1
), $3)
