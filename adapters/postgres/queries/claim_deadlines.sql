-- Several instances claim side by side; a claim that is not settled in time is handed out again.
UPDATE deadlines SET claimed_until = $2
WHERE id IN (
    SELECT id FROM deadlines WHERE due <= $1 AND claimed_until <= $1
    ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED
)
RETURNING saga, key, name, due, meta
