-- Makes a run's claims final and writes the audit log, both or none. A claim that another run has taken
-- over is not this run's any more, but what was sent was sent.
WITH finished AS (
    UPDATE dlq_settlements s
    SET state = 'done', done_at = now()
    FROM unnest($3::int[], $4::bigint[]) AS l (partition, "offset")
    WHERE s.consumer = $1 AND s.run_id = $2 AND s.partition = l.partition AND s."offset" = l."offset"
)
INSERT INTO audit_log (at, actor, action, subject, run_id, count, reason, detail)
VALUES ($5, $6, $7, $1, $2, $8, $9, $10)
