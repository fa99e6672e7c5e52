-- A setting and its entry in the audit log, together.
WITH written AS (
    INSERT INTO settings (name, value, changed_by, changed_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_by = excluded.changed_by, changed_at = excluded.changed_at
)
INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
VALUES ($4, $3, $5, $1, '', 1, $6, $2)
