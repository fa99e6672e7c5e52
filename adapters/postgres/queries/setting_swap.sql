-- A setting, if it still is what it was ($7; empty: also when there is none), and its entry in the audit log, together.
WITH written AS (
    INSERT INTO settings AS kept (name, value, changed_by, changed_at)
    SELECT $1::text, $2::text, $3::text, $4::timestamptz
    WHERE $7::text = '' OR EXISTS (SELECT FROM settings WHERE name = $1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_by = excluded.changed_by, changed_at = excluded.changed_at
    WHERE kept.value = $7
    RETURNING name
)
INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
SELECT $4, $3, $5::text, name, '', 1, $6::text, $8::text FROM written
