-- A price's key is list|SKU, other keys are SKUs.
SELECT category, key, version, position, owner, state
FROM states
WHERE category = $1 AND (key = ANY ($2::text[]) OR category = 'price' AND substr(key, strpos(key, '|') + 1) = ANY ($2::text[]))
ORDER BY key LIMIT $3
