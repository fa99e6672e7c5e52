-- A page of the streams with their versions, which are the numbers of their events.
SELECT category, key, version FROM states
WHERE (category, key) > ($1, $2) AND ($3 = '' OR category = $3)
ORDER BY category, key LIMIT $4
