-- Ends an open republication and writes the audit log: both or none.
WITH cancelled AS (
    UPDATE settings SET value = (value::jsonb || '{"cancelled": true}')::text
    WHERE name = 'republication' AND value::jsonb ->> 'id' = $1
      AND NOT coalesce((value::jsonb ->> 'cancelled')::boolean, false)
      AND (value::jsonb ->> 'reached')::bigint < (value::jsonb ->> 'to')::bigint
    RETURNING (value::jsonb ->> 'records')::bigint AS records
)
INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
SELECT $2, $3, 'events.republish_cancel', 'relay', $1, records, $4, '' FROM cancelled
