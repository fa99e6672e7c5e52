-- Makes a run's claims final and writes the audit log, both or none. A claim that another run has taken
-- over is not this run's any more, but what was sent was sent. A list of offsets is looked up one by one in
-- the primary key, whatever is known of the table's size.
WITH finished AS (
    UPDATE dlq_settlements SET state = 'done', done_at = now()
    WHERE consumer = $1 AND run_id = $2 AND partition = $3 AND "offset" = ANY ($4::bigint[])
)
INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
VALUES ($5, $6, $7, $1, $2, $8, $9, $10)
