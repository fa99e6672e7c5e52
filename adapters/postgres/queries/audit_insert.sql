INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
