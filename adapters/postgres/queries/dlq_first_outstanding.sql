-- The first offset from $3 on without a row that is done: $3 itself, or the end of the unbroken chain of
-- such rows that begins there.
SELECT coalesce((
    SELECT s."offset" + 1 FROM dlq_settlements s
    WHERE s.consumer = $1 AND s.partition = $2 AND s."offset" >= $3 AND s.state = 'done'
      AND EXISTS (SELECT FROM dlq_settlements f WHERE f.consumer = $1 AND f.partition = $2 AND f."offset" = $3 AND f.state = 'done')
      AND NOT EXISTS (
          SELECT FROM dlq_settlements n
          WHERE n.consumer = $1 AND n.partition = $2 AND n."offset" = s."offset" + 1 AND n.state = 'done')
    ORDER BY s."offset" LIMIT 1
), $3)
