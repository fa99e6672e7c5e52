-- Orders a republication, unless one is open, and writes the audit log: both or none.
WITH ordered AS (
    INSERT INTO settings AS s (name, value, changed_by, changed_at) VALUES ('republication', $1, $2, $3)
    ON CONFLICT (name) DO UPDATE
    SET value = excluded.value, changed_by = excluded.changed_by, changed_at = excluded.changed_at
    WHERE coalesce((s.value::json ->> 'cancelled')::boolean, false)
       OR (s.value::json ->> 'reached')::bigint >= (s.value::json ->> 'to')::bigint
    RETURNING name
)
INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
SELECT $3, $2, 'events.republish', 'relay', $4, $5, $6, $7 FROM ordered
