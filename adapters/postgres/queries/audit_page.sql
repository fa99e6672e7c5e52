SELECT id, at, actor, action, subject, run_id, count, reason, detail
FROM audit_log
WHERE ($1 = 0 OR id < $1) AND ($2 = '' OR subject = $2) AND ($3 = '' OR actor = $3) AND ($4 = '' OR action = $4) AND ($5 = '' OR run_id = $5)
ORDER BY id DESC LIMIT $6
